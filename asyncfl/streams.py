"""The only maker of random generators.

Every draw of a simulation comes from a stream that is named by (seed, purpose, client, turn), where a task's `turn` is
the number of tasks that its client was given before: what happens to a client in its k-th task is the same whatever
happens to others, and in whatever order. What is of no client is counted otherwise, by versions for example. A stream
does not depend on what was drawn from any other, so the order in which clients are trained, or whether a client is
trained at all, changes nothing for the rest. Streams are counter-based (Philox, Salmon et al. 2011): seed and purpose
are hashed into one half of the key, client and turn are the other half.

Three groups of purposes can be seeded apart: `data` (which samples a client holds), `clock` (speeds, links, selection)
and `training` (initial model, batches, noise, attacks).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

PURPOSES = {
    "samples": "data",
    "test_split": "data",
    "partition": "data",
    "domains": "data",
    "attackers": "data",
    "curious": "data",
    "root_set": "data",
    "stand_ins": "data",
    "device": "clock",
    "link": "clock",
    "task_clock": "clock",
    "availability": "clock",
    "cohorts": "clock",
    "selection": "clock",
    "calibration": "clock",
    "initial_model": "training",
    "batches": "training",
    "poison": "training",
    "attack": "training",
    "lies": "training",
    "score_noise": "training",
    "client_noise": "training",
    "compression": "training",
    "downloads": "training",
    "epoch_noise": "training",
    "server_noise": "training",
    "example_noise": "training",
    "clip_quantile": "training",
    "decoys": "training",
    "detection": "training",
    "aggregation": "training",
    "fallback": "training",
    "shuffle": "training",
    "canaries": "training",
    "membership": "training",
    "reconstruction": "training",
    "twins": "training",
}
"""What randomness is used for -> the group it is seeded with."""


def unknown_seed() -> int:
    """A seed that nobody can guess: 128 random bits of the operating system."""
    return secrets.randbits(128)


class Streams:
    """Generators of one seeded run.

    `data`, `clock` and `training` replace the seed of their group of purposes; None leaves the run's own.
    """

    def __init__(
        self, seed: int, *, data: int | None = None, clock: int | None = None, training: int | None = None
    ) -> None:
        self.seed = seed
        groups = {"data": data, "clock": clock, "training": training}
        self._seeds = {group: seed if own is None else own for group, own in groups.items()}

    @cached_property
    def _prefixes(self) -> dict[str, int]:
        return {
            purpose: int.from_bytes(hashlib.sha256(f"{self._seeds[group]}/{purpose}".encode()).digest()[:8], "little")
            for purpose, group in PURPOSES.items()
        }

    def _key(self, purpose: str, client: int, number: int) -> int:
        """128-bit key. `client` and `number` are 0..2^32-2, or -1 where the purpose has none."""
        return (self._prefixes[purpose] << 64) | ((client + 1) << 32) | (number + 1)

    def generator(self, purpose: str, client: int = -1, number: int = -1) -> np.random.Generator:
        """NumPy generator of the stream. `number`: the client's turn, or what else is counted (versions, domains)."""
        return np.random.Generator(np.random.Philox(key=self._key(purpose, client, number)))

    def bits(self, purpose: str, client: int = -1, number: int = -1) -> np.random.SFC64:
        """The stream's random bits, from the fastest of NumPy's generators (SFC64), for millions of them."""
        key = self._key(purpose, client, number).to_bytes(16, "little")
        words = np.frombuffer(hashlib.sha256(key).digest(), dtype=np.uint64)
        made = np.random.SFC64(_ANY)
        # The whole digest is its state: three words, and a counter that makes the fourth. They need no mixing.
        made.state = {"bit_generator": "SFC64", "state": {"state": words}, "has_uint32": 0, "uinteger": 0}
        return made

    def torch_generator(self, purpose: str, client: int = -1, number: int = -1) -> torch.Generator:
        """Torch CPU generator of the stream: a Mersenne Twister whose whole state is drawn.

        `manual_seed` would use 32 bits of a seed, and of 300,000 generators some ten pairs would be alike.
        """
        import torch

        made = torch.Generator()
        state = made.get_state().numpy()
        words = np.random.Philox(key=self._key(purpose, client, number)).random_raw(_TWISTER // 2).view(np.uint32)
        # PyTorch's layout (CPUGeneratorImplStateLegacy): the seed; numbers left before the next twist, and whether it
        # is seeded; the place; the state, 64 bits for each word of 32; then a normal for later, of which there is none.
        fields = state[: 8 * (3 + _TWISTER)].view(np.uint64)
        fields[0] = 0
        fields[1] = 1 | 1 << 32
        fields[2] = 0
        fields[3:] = words
        made.set_state(torch.from_numpy(state))
        return made

    def order(self, purpose: str, client: int = -1, number: int = -1) -> RandomOrder:
        """Random order of the stream."""
        key = self._key(purpose, client, number).to_bytes(16, "little")
        return RandomOrder(int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little"))


_ANY = np.random.SeedSequence(0)  # of which nothing remains: making one takes longer than all the rest
_TWISTER = 624  # words of a Mersenne Twister's state
_WORD = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SINGLY = 32  # numbers that are drawn one at a time: a draw needs few, and arrays have a price


class RandomOrder:
    """A uniformly random order of the numbers 0..n-1 that need not be written down.

    It begins with `proposed(n)` numbers that are drawn with replacement, without those that have come before; the
    others follow by their `ranks`. So the first few of any large subset are found in a moment, and those of a small one
    by ranking it. Words are those of SplitMix64 (Steele, Lea and Flood 2014), which can be read at any place.
    """

    def __init__(self, key: int) -> None:
        """`key`: 0..2^64-1, well mixed."""
        self._key = key

    def generator(self) -> np.random.Generator:
        """NumPy generator of the same stream, for who draws otherwise than in this order."""
        return np.random.Generator(np.random.Philox(key=self._key))

    @staticmethod
    def proposed(n: int) -> int:
        """Numbers that are drawn before ranks decide: about what ranking all of n numbers would cost."""
        return max(_SINGLY, min(8192, n // 64))

    def proposals(self, n: int) -> Iterator[int]:
        """The numbers 0..n-1 that are drawn first; one may come twice. n: 1..2^32."""
        end = self.proposed(n) + 1
        for place in range(1, _SINGLY + 1):
            word = (self._key - place * _STEP) & _WORD
            word = ((word ^ (word >> 30)) * _FIRST) & _WORD
            word = ((word ^ (word >> 27)) * _SECOND) & _WORD
            yield int((((word ^ (word >> 31)) >> 11) * 2.0**-53) * n)
        start, size = _SINGLY + 1, 2 * _SINGLY
        while start < end:
            words = self._words(-np.arange(start, min(start + size, end), dtype=np.int64))
            yield from ((words >> np.uint64(11)) * 2.0**-53 * n).astype(np.int64).tolist()
            start, size = start + size, 2 * size

    def ranks(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """A random word for each of `numbers` (m,), which are 0..2^32: of those not proposed, the least come first."""
        return self._words(numbers)

    def _words(self, places: NDArray[np.int64]) -> NDArray[np.uint64]:
        word = places.astype(np.uint64)
        word *= np.uint64(_STEP)
        word += np.uint64(self._key)
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            word ^= word >> np.uint64(shift)
            word *= np.uint64(factor)
        word ^= word >> np.uint64(31)
        return word

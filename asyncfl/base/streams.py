"""Random streams: the only source of random generators.

Every draw comes from a stream named by (seed, purpose, client, turn). The `turn` of a task is the number of tasks that
its client was given before. Draws that belong to no client are numbered otherwise, by version for example. Streams are
independent of each other: the draws of a client's k-th task do not depend on the other clients, on the order of
training, or on which clients are trained at all. Streams are counter-based (Philox, Salmon et al. 2011): one half of
the key is a hash of seed and purpose, the other half holds client and turn.

Three groups of purposes can have seeds of their own: `data` (which samples a client holds), `clock` (speeds, links,
selection) and `training` (initial model, batches, attacks). The group `noise` (of privacy schemes) follows `training`,
and can be drawn anew.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

_GROUPS = {
    "data": "samples test_split partition domains attackers curious root_set stand_ins",
    "clock": "device link task_clock availability cohorts selection calibration",
    "training": "initial_model batches poison attack lies compression downloads decoys detection aggregation fallback "
    "shuffle canaries membership reconstruction twins dropout masks rounding",
    "noise": "score_noise client_noise epoch_noise server_noise example_noise clip_quantile poisson_batches "
    "field_noise",
}
PURPOSES = {purpose: group for group, purposes in _GROUPS.items() for purpose in purposes.split()}
"""Purpose of a stream -> group that it is seeded with."""


def unknown_seed() -> int:
    """Draw an unpredictable seed: 128 random bits of the operating system."""
    return secrets.randbits(128)


class Streams:
    """Random generators of one seeded run.

    `data`, `clock` and `training` replace the seed of their group of purposes; None leaves the run's own. `noise`: a
    further seed of the privacy noise, beside that of `training`; None: none.
    """

    def __init__(
        self,
        seed: int,
        *,
        data: int | None = None,
        clock: int | None = None,
        training: int | None = None,
        noise: int | None = None,
    ) -> None:
        self.seed = seed
        groups = {"data": data, "clock": clock, "training": training}
        self._seeds = {group: str(seed if own is None else own) for group, own in groups.items()}
        # Beside the seed of training, not in its place: several seeds with one `noise` must not share their noise.
        self._seeds["noise"] = self._seeds["training"] + ("" if noise is None else f"+{noise}")

    @cached_property
    def _prefixes(self) -> dict[str, int]:
        return {
            purpose: int.from_bytes(hashlib.sha256(f"{self._seeds[group]}/{purpose}".encode()).digest()[:8], "little")
            for purpose, group in PURPOSES.items()
        }

    def _key(self, purpose: str, client: int, number: int) -> int:
        """Return the 128-bit key of a stream. `client` and `number` are 0..2^32-2, or -1 where the purpose has none."""
        return (self._prefixes[purpose] << 64) | ((client + 1) << 32) | (number + 1)

    def generator(self, purpose: str, client: int = -1, number: int = -1) -> np.random.Generator:
        """Return a new NumPy generator at the start of a stream.

        Args:
            purpose: Key of `PURPOSES`.
            client: Client of the stream; -1: none.
            number: Turn of the client, or another index such as a version or domain; -1: none.
        """
        return np.random.Generator(np.random.Philox(key=self._key(purpose, client, number)))

    def bits(self, purpose: str, client: int = -1, number: int = -1) -> np.random.SFC64:
        """Return a new bit generator for millions of draws: SFC64, NumPy's fastest. Arguments as in `generator`."""
        key = self._key(purpose, client, number).to_bytes(16, "little")
        words = np.frombuffer(hashlib.sha256(key).digest(), dtype=np.uint64)
        made = np.random.SFC64(_ANY)
        # The digest fills the state directly: three words and a counter. Hashed words need no mixing.
        made.state = {"bit_generator": "SFC64", "state": {"state": words}, "has_uint32": 0, "uinteger": 0}
        return made

    def torch_generator(self, purpose: str, client: int = -1, number: int = -1) -> torch.Generator:
        """Return a new torch CPU generator of a stream: a Mersenne Twister with its whole state drawn.

        `manual_seed` uses only 32 bits of a seed: among 300,000 generators, about ten pairs would be equal.
        """
        import torch

        made = torch.Generator()
        state = made.get_state().numpy()
        words = np.random.Philox(key=self._key(purpose, client, number)).random_raw(_TWISTER // 2).view(np.uint32)
        # PyTorch's layout (CPUGeneratorImplStateLegacy): seed; draws left before the next twist, and a flag for being
        # seeded; position; the state, each 32-bit word in 64 bits; then a cached normal, here none.
        fields = state[: 8 * (3 + _TWISTER)].view(np.uint64)
        fields[0] = 0
        fields[1] = 1 | 1 << 32
        fields[2] = 0
        fields[3:] = words
        made.set_state(torch.from_numpy(state))
        return made

    def order(self, purpose: str, client: int = -1, number: int = -1) -> RandomOrder:
        """Return the random order of a stream. Arguments as in `generator`."""
        key = self._key(purpose, client, number).to_bytes(16, "little")
        return RandomOrder(int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little"))


_ANY = np.random.SeedSequence(0)  # overwritten by the state; creating one would dominate the cost of a stream
_TWISTER = 624  # 32-bit words in the state of a Mersenne Twister
_WORD = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SINGLY = 32  # numbers drawn one at a time before arrays: most draws need few


class RandomOrder:
    """A uniformly random order of the numbers 0..n-1 that is never stored as an array.

    The order begins with `proposed(n)` numbers drawn with replacement, repetitions left out; the others follow by their
    `ranks`. The first few members of a large subset are found by drawing, those of a small subset by ranking it. The
    random words are those of SplitMix64 (Steele, Lea and Flood 2014), which has random access.
    """

    def __init__(self, key: int) -> None:
        self._key = key  # uniformly random in 0..2^64-1
        self._first: tuple[int, int] | None = None  # n, and the first of its proposals, where that is known

    def generator(self) -> np.random.Generator:
        """Return a new NumPy generator of the same stream, for draws of another kind."""
        return np.random.Generator(np.random.Philox(key=self._key))

    @staticmethod
    def proposed(n: int) -> int:
        """Return the count of numbers drawn before ranks decide, at about the cost of ranking all n numbers."""
        return max(_SINGLY, min(8192, n // 64))

    @staticmethod
    def first_proposals(orders: Sequence[RandomOrder], n: int) -> list[int]:
        """Return the first drawn number in 0..n-1 of each of the orders, which keep it. n: 1..2^32."""
        words = _split_mix(np.array([one._key for one in orders], dtype=np.uint64) - np.uint64(_STEP))
        found: list[int] = ((words >> np.uint64(11)) * 2.0**-53 * n).astype(np.int64).tolist()
        for order, number in zip(orders, found, strict=True):
            order._first = n, number
        return found

    def proposal(self, n: int, place: int = 1) -> int:
        """Return one of the first drawn numbers in 0..n-1. n: 1..2^32; `place`: 1..32."""
        if place == 1 and self._first is not None and self._first[0] == n:
            return self._first[1]
        word = (self._key - place * _STEP) & _WORD
        word = ((word ^ (word >> 30)) * _FIRST) & _WORD
        word = ((word ^ (word >> 27)) * _SECOND) & _WORD
        return int((((word ^ (word >> 31)) >> 11) * 2.0**-53) * n)

    def proposals(self, n: int) -> Iterator[int]:
        """Yield the first drawn numbers in 0..n-1, with repetitions. n: 1..2^32."""
        end = self.proposed(n) + 1
        for place in range(1, _SINGLY + 1):
            yield self.proposal(n, place)
        start, size = _SINGLY + 1, 2 * _SINGLY
        while start < end:
            words = self._words(-np.arange(start, min(start + size, end), dtype=np.int64))
            yield from ((words >> np.uint64(11)) * 2.0**-53 * n).astype(np.int64).tolist()
            start, size = start + size, 2 * size

    def ranks(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return a random word for each of `numbers` (m,), in 0..2^32, which orders numbers that were not drawn."""
        return self._words(numbers)

    def _words(self, places: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the words of SplitMix64 at these positions of its sequence, which may be negative."""
        return _split_mix(places.astype(np.uint64) * np.uint64(_STEP) + np.uint64(self._key))


def _split_mix(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the word of SplitMix64 for each of its states (n,)."""
    word = states.copy()
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        word ^= word >> np.uint64(shift)
        word *= np.uint64(factor)
    word ^= word >> np.uint64(31)
    return word

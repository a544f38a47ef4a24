"""The only maker of random generators.

Every draw of a simulation comes from a stream that is named by (seed, purpose, client, task). A stream does not depend
on what was drawn from any other, so the order in which clients are trained, or whether a client is trained at all,
changes nothing for the rest. Streams are counter-based (Philox, Salmon et al. 2011): seed and purpose are hashed into
one half of the key, client and task are the other half.

Three groups of purposes can be seeded apart: `data` (which samples a client holds), `clock` (speeds, links, selection)
and `training` (initial model, batches, noise, attacks).
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

PURPOSES = {
    "samples": "data",
    "partition": "data",
    "domains": "data",
    "attackers": "data",
    "root_set": "data",
    "stand_ins": "data",
    "device": "clock",
    "link": "clock",
    "task_clock": "clock",
    "availability": "clock",
    "selection": "clock",
    "calibration": "clock",
    "initial_model": "training",
    "batches": "training",
    "poison": "training",
    "attack": "training",
    "client_noise": "training",
    "epoch_noise": "training",
    "server_noise": "training",
    "example_noise": "training",
    "clip_quantile": "training",
    "decoys": "training",
    "detection": "training",
    "aggregation": "training",
    "shuffle": "training",
}
"""What randomness is used for -> the group it is seeded with."""


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

    def _key(self, purpose: str, client: int, task: int) -> int:
        """128-bit key. `client` and `task` are 0..2^31-1, or -1 where the purpose has none."""
        return (self._prefixes[purpose] << 64) | ((client + 1) << 32) | (task + 1)

    def generator(self, purpose: str, client: int = -1, task: int = -1) -> np.random.Generator:
        """NumPy generator of the stream."""
        return np.random.Generator(np.random.Philox(key=self._key(purpose, client, task)))

    def torch_generator(self, purpose: str, client: int = -1, task: int = -1) -> torch.Generator:
        """Torch CPU generator of the stream, for millions of normals (torch draws them three times as fast)."""
        import torch

        digest = hashlib.sha256(self._key(purpose, client, task).to_bytes(16, "little")).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)

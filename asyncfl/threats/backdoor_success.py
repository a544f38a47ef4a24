"""How well a backdoor works: the test set on which accuracy is the attack's success."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.threats.attack import Attack


def backdoor_test_set(
    attack: Attack, images: NDArray[np.float32], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]] | None:
    """Triggered test images of all classes but the target, and the target as their label; None: no backdoor.

    `images`: (n, C, H, W), `labels`: (n,). A model's accuracy on this set is the success rate, 0..1: images that are of
    the target class anyhow prove nothing and are left out.
    """
    target = attack.target
    if target is None:
        return None
    marked = attack.triggered(images)
    if marked is None:
        return None
    others = labels != target
    return marked[others], np.full(int(others.sum()), target, dtype=np.int64)

"""Success rate of a backdoor: the accuracy on a special test set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.threats.attack import Attack


def backdoor_test_set(
    attack: Attack, images: NDArray[np.float32], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]] | None:
    """Return triggered test images of all classes but the target, labelled as the target; None: no backdoor.

    `images`: (n, C, H, W), `labels`: (n,). The accuracy of a model on this set is the success rate, 0..1. Images of the
    target class are left out because they are classified as the target without a trigger.
    """
    target = attack.target
    if target is None:
        return None
    marked = attack.triggered(images)
    if marked is None:
        return None
    others = labels != target
    return marked[others], np.full(int(others.sum()), target, dtype=np.int64)

"""Examples that disprove an assumed sensitivity: what was replaced by what, and how far the upload moved."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from asyncfl.data import FederatedData
from asyncfl.twins.neighbours import Neighbour

NAMES = "disproved-{seed}"
"""Beginning of the names of the files that keep the examples of a seed: `.npz` with the images, `.txt` with a line for
each."""


@dataclass(frozen=True)
class Example:
    """A twin whose upload lies further away than anything was assumed to."""

    client: int
    task: int
    base_version: int
    neighbour: Neighbour
    distance: float
    sensitivity: float

    @property
    def said(self) -> str:
        """In one line."""
        return (
            f"client {self.client}, task {self.task} from version {self.base_version}: {self.neighbour.said}; "
            f"|u - u'| is {self.distance:.6g}, assumed at most {self.sensitivity:.6g}"
        )


def example_files(seed: int, examples: list[Example], data: FederatedData) -> dict[str, bytes]:
    """Name of a file -> what it holds; nothing without examples. The same bytes each time.

    The arrays of the `.npz` are called `client3_image`, `client3_label` (what stands in the sample's place),
    `client3_own_image`, `client3_own_label` and `client3_sample`; where all samples of a client are others there are
    none.
    """
    if not examples:
        return {}
    arrays: dict[str, np.ndarray] = {}
    for one in examples:
        name, neighbour = f"client{one.client}", one.neighbour
        arrays[f"{name}_task"] = np.array(one.task)
        if neighbour.image is not None:
            images, labels = data.client(one.client)
            arrays |= {
                f"{name}_image": neighbour.image,
                f"{name}_label": np.array(neighbour.label),
                f"{name}_own_image": images[neighbour.sample],
                f"{name}_own_label": labels[neighbour.sample],
                f"{name}_sample": np.array(neighbour.sample),
            }
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    name = NAMES.format(seed=seed)
    lines = "".join(f"{one.said}\n" for one in examples)
    return {f"{name}.npz": file.getvalue(), f"{name}.txt": lines.encode()}

"""Local samples of a participant in a live federation: a file that only this client reads.

It is an npz file with `x_train` and `y_train`, as in the files of whole data sets; other arrays in it are ignored.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from asyncfl.base.errors import DataError, Fault
from asyncfl.data.catalog import CATALOG
from asyncfl.data.data_spec import DataSpec
from asyncfl.data.federated import FederatedData
from asyncfl.data.image_file import misfit, read_npz
from asyncfl.data.sample_source import to_float

IMAGES, LABELS = "x_train", "y_train"


class ClientFile:
    """Images and labels of one client. Raises DataError, naming the file, if it is missing or lacks one of both."""

    def __init__(self, path: Path) -> None:
        self.path, self.arrays = path, read_npz(path, (IMAGES, LABELS))

    def __len__(self) -> int:
        return len(self.arrays[LABELS])

    def of_client(self, client: int, data: DataSpec) -> FederatedData:
        """Return the federation's data as this client knows them: its own samples, no others, and no test set.

        Raises DataError if the samples do not fit the description `data`.
        """
        if data.names[0] not in CATALOG:
            got = f"where clients come with files of their own, got {data.names[0]}"
            allowed = f"must be images by name ({', '.join(CATALOG)})"
            raise DataError([Fault("data.dataset", f"{allowed} {got}")], self.path)
        dataset, images, labels = CATALOG[data.names[0]], self.arrays[IMAGES], self.arrays[LABELS]
        faults = [
            Fault(name, f"{fault}; the scenario has {dataset.name}")
            for name, array in self.arrays.items()
            if (fault := misfit(dataset, name, array.shape, array.dtype))
        ]
        if not faults and len(labels) != len(images):
            faults.append(Fault(LABELS, f"must have one label per image ({len(images)}), got {len(labels)}"))
        elif not faults and not 0 <= labels.min() <= labels.max() < dataset.classes:
            allowed = f"must be labels 0..{dataset.classes - 1} as the scenario's ({dataset.name})"
            faults.append(Fault(LABELS, f"{allowed}, got {labels.min()}..{labels.max()}"))
        if faults:
            raise DataError(faults, self.path)
        images = to_float(images, dataset.scale if data.scaling == "standardised" else None)
        labels = labels.astype(np.int64)
        offsets = np.zeros(data.clients + 1, dtype=np.int64)
        offsets[client + 1 :] = len(labels)
        return FederatedData(
            images=images,
            labels=labels,
            offsets=offsets,
            test_images=images[:0],
            test_labels=labels[:0],
            classes=data.classes,
            source="real",
            provenance=f"own samples of client {client}",
            original=False,
            domains=data.names,
            client_domains=np.zeros(data.clients, dtype=np.int64),
            test_offsets=np.zeros(2, dtype=np.int64),
        )

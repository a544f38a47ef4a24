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
from asyncfl.data.image_file import read_npz
from asyncfl.data.sample_source import to_float

IMAGES, LABELS = "x_train", "y_train"


class ClientFile:
    """Images and labels of one client. Raises DataError, naming the file, if it is missing or holds none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = read_npz(path, (IMAGES, LABELS))
        self.images, self.labels = images, labels = arrays[IMAGES], arrays[LABELS]
        faults = []
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or not len(images):
            got = f"got {images.dtype} {images.shape}"
            faults.append(Fault(IMAGES, f"must be uint8 images of shape (n, height, width[, 3]), n at least 1, {got}"))
        if not np.issubdtype(labels.dtype, np.integer) or labels.shape != images.shape[:1]:
            got = f"got {labels.dtype} {labels.shape}"
            faults.append(Fault(LABELS, f"must be one integer label per image, of shape ({len(images)},), {got}"))
        if faults:
            raise DataError(faults, path)

    def __len__(self) -> int:
        return len(self.labels)

    def of_client(self, client: int, data: DataSpec) -> FederatedData:
        """Return the federation's data as this client knows them: its own samples, no others, and no test set.

        Raises DataError if the samples do not fit the description `data`.
        """
        if data.names[0] not in CATALOG:
            named = ", ".join(CATALOG)
            got = f"where clients come with files of their own, got {data.names[0]}"
            raise DataError([Fault("data.dataset", f"must be images by name ({named}) {got}")], self.path)
        dataset = CATALOG[data.names[0]]
        as_given, faults = f"as the scenario's ({dataset.name})", []
        if (shape := self.images.shape[1:]) != dataset.image_shape:
            faults.append(Fault(IMAGES, f"must be images of shape {dataset.image_shape} {as_given}, got {shape}"))
        least, most = int(self.labels.min()), int(self.labels.max())
        if least < 0 or most >= dataset.classes:
            faults.append(Fault(LABELS, f"must be labels 0..{dataset.classes - 1} {as_given}, got {least}..{most}"))
        if faults:
            raise DataError(faults, self.path)
        images = to_float(self.images, dataset.scale if data.scaling == "standardised" else None)
        labels = self.labels.astype(np.int64)
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

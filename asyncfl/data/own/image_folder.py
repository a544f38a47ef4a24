"""The user's own data sets as folders of pictures, one folder per class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import default_property
from asyncfl.base.errors import DataError, Fault
from asyncfl.base.own_classes import own_file
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.samples import Samples

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
"""Endings of picture files, in lower case; other files are ignored."""


class ImageFolder(Dataset):
    """Pictures in a folder per class, `PATH/cats/1.png`; or `PATH/train/cats/...` and `PATH/test/cats/...`.

    The classes are named after the folders, in alphabetical order.
    """

    kind: Literal["folder"] = "folder"
    path: str = Field(min_length=1, examples=["pets"])
    """The folder; looked for in the working directory, beside the scenario, and on PYTHONPATH."""
    size: Annotated[tuple[int, int], MeasuredIn("pixels")] | None = None
    """Height and width in pixels to which every picture is resized (bilinear); null: all must have the same size."""
    colours: Literal["rgb", "grey"] = "rgb"
    """Number of channels of every picture: `rgb` three, `grey` one."""

    @default_property
    def title(self) -> str:
        return Path(self.path).name or self.path

    @property
    def files(self) -> tuple[str, ...]:
        """The folder, its subfolders, and the pictures."""
        try:
            root = own_file(self.path)
            below = sorted(str(path) for path in root.rglob("*") if path.is_dir() or path.suffix.lower() in ENDINGS)
        except (OSError, ValueError, RuntimeError):
            return (self.path,)
        return (self.path, *below)

    def load(self) -> Samples:
        """Load all pictures as bytes (n, height, width[, 3]), in the alphabetical order of classes and files."""
        try:
            root = own_file(self.path)
            is_folder = root.is_dir()
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"cannot be read: {error}", self.path) from None
        if not is_folder:
            raise DataError("must be a folder with one folder of pictures per class, but there is no such folder", root)
        splits = [root / "train", root / "test"] if (root / "train").is_dir() else [root]
        names = sorted(path.name for path in splits[0].iterdir() if path.is_dir() and not path.name.startswith("."))
        if len(names) < 2:
            got = ", ".join(names) or "none"
            raise DataError(f"must hold at least two folders of pictures, one per class, got {got}", splits[0])
        parts = [self._split(split, names) for split in splits if split.is_dir()]
        if len(parts) == 2 and parts[0][0].shape[1:] != parts[1][0].shape[1:]:
            train, test = ("x".join(map(str, part[0].shape[1:3])) for part in parts)
            raise DataError(f"must hold pictures of {train} pixels as train does, got {test}; give size", splits[1])
        tests, test_labels = parts[1] if len(parts) == 2 else (None, None)
        return Samples(*parts[0], tests, test_labels, names)

    def _split(self, folder: Path, names: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        pictures: list[NDArray[np.uint8]] = []
        labels: list[int] = []
        faults: list[Fault] = []
        others = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        if unknown := [name for name in others if name not in names]:
            raise DataError(f"must hold the classes {', '.join(names)}, got also {', '.join(unknown)}", folder)
        for label, name in enumerate(names):
            found = sorted(path for path in (folder / name).glob("*") if path.suffix.lower() in ENDINGS)
            if not found and folder.name != "test":
                faults.append(Fault(name, f"must hold at least one picture ({', '.join(ENDINGS)}), got none"))
            for path in found:
                read = self._picture(path)
                place = f"{name}/{path.name}"
                if isinstance(read, str):
                    faults.append(Fault(place, read))
                elif pictures and read.shape != pictures[0].shape:
                    first, got = ("x".join(map(str, one.shape[:2])) for one in (pictures[0], read))
                    allowed = f"must be {first} pixels (height x width) as the first"
                    faults.append(Fault(place, f"{allowed}, got {got}; give size"))
                else:
                    pictures.append(read)
                    labels.append(label)
        if not pictures and not faults:
            faults.append(Fault("", "must hold at least one picture, got none"))
        if faults:
            raise DataError(faults, folder)
        return np.stack(pictures), np.array(labels, np.int64)

    def _picture(self, path: Path) -> NDArray[np.uint8] | str:
        """Read one file as bytes (height, width[, 3]); return the fault if it cannot be read."""
        from PIL import Image

        try:
            with Image.open(path) as opened:
                picture = opened.convert("RGB" if self.colours == "rgb" else "L")
                if self.size is not None:
                    picture = picture.resize((self.size[1], self.size[0]), Image.Resampling.BILINEAR)
                pixels: NDArray[np.uint8] = np.asarray(picture, np.uint8)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            return f"must be a picture, but cannot be read: {type(error).__name__}"
        return pixels

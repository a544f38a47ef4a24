"""Drawn files of others: pictures of any mode, tables with numbers as text, and run folders with links in them."""

import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from asyncfl.base.errors import AsyncflError, OutputError
from asyncfl.base.files.own_folder import CHECKPOINT, MARK, PARTIAL, OwnFolder
from asyncfl.data.own import ImageFolder, TableFile
from tests.fuzz.judging import Case, NonsenseError

BAR = np.zeros((8, 8), np.uint8)
BAR[2:6, 2:4] = 255
MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I;16", "I", "F")
ENDINGS = {"CMYK": "tiff", "YCbCr": "tiff", "HSV": None, "I": "tiff", "F": "tiff"}
"""Mode -> the ending of a file that keeps it; None: no file does, and png is written in colours."""


def in_mode(mode: str) -> Image.Image:
    """Return a picture of a bar in a mode of PIL; where the mode has opacity, the bar is in the opacity alone."""
    if mode == "I;16":
        return Image.fromarray(BAR.astype(np.uint16) * 257)
    if mode in ("LA", "RGBA"):
        black = np.zeros((8, 8, len(mode) - 1), np.uint8)
        return Image.fromarray(np.dstack([black, BAR]), mode)
    if mode == "I":
        return Image.fromarray(BAR.astype(np.int32) * 257)
    if mode == "F":
        return Image.fromarray(BAR.astype(np.float32))
    return Image.fromarray(BAR).convert(mode)


def pictures(rng: random.Random, folder: Path) -> Case:
    """A folder of pictures in drawn modes and places: refused, or each shows its bar."""
    root, modes = folder / "pets", [rng.choice(MODES) for _ in range(4)]
    shutil.rmtree(root, ignore_errors=True)
    for number, mode in enumerate(modes):
        place = root / ("a", "b")[number % 2] / rng.choice(["", "sub", "sub/deeper"])
        place.mkdir(parents=True, exist_ok=True)
        ending = ENDINGS.get(mode, "png")
        picture = in_mode(mode) if ending else in_mode(mode).convert("RGB")
        picture.save(place / f"{number}.{ending or 'png'}")

    def call() -> None:
        found = ImageFolder(path=str(root), colours=rng.choice(["rgb", "grey"])).load()
        if len(found.features) != len(modes):
            raise NonsenseError(f"of {len(modes)} pictures {len(found.features)} were read")
        grey = found.features.reshape(len(modes), 8, 8, -1).astype(float).mean(3)
        for shown in grey:
            inside, outside = shown[2:6, 2:4], shown[0]
            if abs(float(inside.mean()) - float(outside.mean())) < 50:
                raise NonsenseError("a picture does not show its bar any more")

    return Case(f"modes {modes}", call, False, " ".join(modes))


WRITTEN = {
    "plain": (lambda one: f"{one:.2f}", {}),
    "thousands": (lambda one: f"{one:,.2f}", {"thousands": ","}),
    "decimal comma": (lambda one: f"{one:.2f}".replace(".", ","), {"decimal": ","}),
    "both turned": (
        lambda one: f"{one:,.2f}".translate(str.maketrans(",.", ".,")),
        {"decimal": ",", "thousands": "."},
    ),
    "spaces": (lambda one: f" {one:.2f} ", {}),
}
"""How numbers are written -> the text of one, and the options that say so."""


def tables(rng: random.Random, folder: Path) -> Case:
    """A table whose numbers are written in a drawn way: taken as one number a row, or refused."""
    random_numbers = np.random.default_rng(rng.randrange(2**32))
    numbers = random_numbers.uniform(1, 99_999, 120)
    how, separator = rng.choice(list(WRITTEN)), rng.choice([",", ";", "\t"])
    write, options = WRITTEN[how]
    told = rng.random() < 0.6
    rows = {"x": [write(one) for one in numbers], "y": np.where(numbers > 50_000, "above", "below")}
    path = folder / "rows.csv"
    pd.DataFrame(rows).to_csv(path, index=rng.random() < 0.2, sep=separator)

    def call() -> None:
        given = {"separator": separator, **options} if told else {}
        found = TableFile(path=str(path), target="y", standardised=False, **given).load()
        assert found.test_features is not None
        taken = np.concatenate([found.features, found.test_features])
        if taken.shape[1] != 1 or not np.allclose(np.sort(taken[:, 0]), np.sort(numbers.round(2)), rtol=1e-5):
            raise NonsenseError(f"numbers were taken as {taken.shape[1]} features, or as other numbers")

    return Case(f"{how}, {separator!r}, {'told' if told else 'not told'}", call, False, path.read_text())


NAMES = ("0123456789abcdef", "whole", "live", "lock", "mine", "seed-0", f"seed-0{CHECKPOINT}", "seed-0.unfinished")


def links(rng: random.Random, folder: Path) -> Case:
    """A run folder with links to a user's folder at drawn places: written or refused, and the user's files stay."""
    home, own = folder / "home", folder / "owned"
    for place in (home, own):
        shutil.rmtree(place, ignore_errors=True)
    for name in NAMES:
        (home / name / "inside").mkdir(parents=True)
        (home / name / "inside" / "thesis.tex").write_text("precious")
    (home / "thesis.tex").write_text("precious")

    def put(scenario: str, force: bool = False) -> None:
        folder_of_run = OwnFolder(own, "run", scenario)
        with folder_of_run.working(force) as area:
            place = area / NAMES[0] / "seed-0"
            folder_of_run.keep(place, lambda into: (into / "part").write_text("1"))
            folder_of_run.replace(area, lambda into: (into / "end").write_text("1"), "end")

    put("one")
    made = []
    for _ in range(rng.randint(1, 4)):
        place = own / rng.choice(
            [PARTIAL, MARK, "end", f"{PARTIAL}/{rng.choice(NAMES)}", f"{PARTIAL}/{NAMES[0]}/{rng.choice(NAMES)}"]
        )
        if any(above.is_symlink() for above in place.parents):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            continue
        place.unlink(missing_ok=True)
        place.symlink_to(rng.choice([home, home / NAMES[0], home / "thesis.tex"]))
        made.append(place.relative_to(own).as_posix())
    expected = sorted(path.relative_to(home).as_posix() for path in home.rglob("*"))

    def call() -> None:
        OwnFolder(own, "run", "one").tidy()
        refused: AsyncflError | None = None
        try:
            put("two", force=True)
        except OutputError as error:
            refused = error
        files = [path for path in home.rglob("*.tex") if path.is_file()]
        if any(path.read_text() != "precious" for path in files):
            raise NonsenseError("a file of the user was overwritten through a link")
        if sorted(path.relative_to(home).as_posix() for path in home.rglob("*")) != expected:
            raise NonsenseError("files of the user are gone, or there are others among them")
        if refused is not None:
            raise refused

    return Case(f"links at {made}", call, False, " ".join(made))

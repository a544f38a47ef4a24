"""`audit/attacks.parquet`: what attacks on a run found, one beside the other, told apart by the column `method`.

What twins found stands in `audit.parquet`, release by release: it is about the very run. Attacks by canaries are of a
run of their own, and those on membership prove no epsilon.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from asyncfl.errors import OutputError, RunError, system_says
from asyncfl.files.atomic import atomic_file
from asyncfl.files.parquet import read_parquet

NAME = "attacks.parquet"


def read_attacks(folder: Path) -> pa.Table | None:
    """The table in the folder of a run; None where no attack was made. Raises RunError where it is damaged."""
    path = folder / "audit" / NAME
    if not path.exists():
        return None
    try:
        table = read_parquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read as a table ({str(error).splitlines()[0]}); remove it") from None
    if not {"seed", "method"} <= set(table.column_names):
        raise RunError(f"{path} is no table of attacks; remove it")
    return table


def write_attacks(folder: Path, found: pa.Table) -> Path:
    """Put `found` into the table: it takes the place of what the same method found before in the same seeds.

    `found` has the columns `seed` and `method`, one method; others as the method has them, null for other methods.
    Returns its path. Raises OutputError.
    """
    method, seeds = found["method"][0].as_py(), pc.unique(found["seed"])
    before = read_attacks(folder)
    if before is not None:
        replaced = pc.and_(pc.equal(before["method"], method), pc.is_in(before["seed"], seeds))
        found = pa.concat_tables([before.filter(pc.invert(replaced)), found], promote_options="default")
    # The order of rows does not tell in which order the audits were made.
    found = found.take(pc.sort_indices(found, sort_keys=[("method", "ascending"), ("seed", "ascending")]))
    place = audit_folder(folder) / NAME
    with atomic_file(place) as path, path.open("wb") as file:
        pq.write_table(found.combine_chunks(), file, compression="zstd")
    return place


def audit_folder(folder: Path, name: str = "") -> Path:
    """The folder for what attacks on the run in `folder` leave, or the one with that `name` in it, made where missing.

    Raises OutputError.
    """
    own = folder / "audit" / name
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {own}: {system_says(error)}") from None
    return own

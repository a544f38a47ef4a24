"""`audit/attacks.parquet`: results of canaries and membership inference; the column `method` says which."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from asyncfl.base.errors import OutputError, RunError, system_says
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.files.reading import read_parquet

NAME = "attacks.parquet"


def schema(names: str) -> pa.Schema:
    """Return the schema of words such as `seed:i delta:f method`: integers, floats, text."""
    types = {"": pa.string(), "i": pa.int64(), "f": pa.float64()}
    return pa.schema([(name, types[kind]) for name, _, kind in (word.partition(":") for word in names.split())])


def read_attacks(folder: Path) -> pa.Table | None:
    """Read the table in the folder of a run; None: there was no attack. Raises RunError if it is damaged."""
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


def write_attacks(folder: Path, results: pa.Table) -> Path:
    """Write the results of one method in place of its earlier results of the same seeds; return the table's path.

    `results`: columns `seed`, `method` and those of the method, which hold null in rows of other methods. Raises
    OutputError.
    """
    before = read_attacks(folder)
    if before is not None:
        same_seed = pc.is_in(before["seed"], pc.unique(results["seed"]))
        replaced = pc.and_(pc.equal(before["method"], results["method"][0]), same_seed)
        results = pa.concat_tables([before.filter(pc.invert(replaced)), results], promote_options="default")
    # The bytes of the table do not depend on the order of the audits.
    results = results.take(pc.sort_indices(results, sort_keys=[("method", "ascending"), ("seed", "ascending")]))
    place = audit_folder(folder) / NAME
    with atomic_file(place) as path:
        pq.write_table(results.combine_chunks(), path, compression="zstd")
    return place


def audit_folder(folder: Path, name: str = "") -> Path:
    """Return `audit` in the folder of a run, or its subfolder `name`; create it if missing. Raises OutputError."""
    own = folder / "audit" / name
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {own}: {system_says(error)}") from None
    return own

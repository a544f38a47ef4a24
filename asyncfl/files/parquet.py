"""Reads a table from a Parquet file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(path: Path) -> pa.Table:
    """The table in the file `path`. Raises FileNotFoundError, OSError and pyarrow's errors for what is no table."""
    # Opened here: of a name, pyarrow would read a folder of tables, and columns out of folders called a=b. Opened by
    # pyarrow: a file of Python's may be let go by a thread of pyarrow's when the interpreter is gone, which aborts.
    try:
        file = pa.OSFile(str(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, "there is no such file", str(path)) from None
    with file:
        return pq.read_table(file)

"""Read tables from Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from asyncfl.base.files.reading import check_ordinary


def read_parquet(path: Path) -> pa.Table:
    """Read the table in the file `path`. Raises FileNotFoundError, OSError, or pyarrow's errors for a damaged file."""
    # Opened here, because pyarrow would read a folder of that name as a table too, and columns from folders called a=b.
    # Opened by pyarrow, because its threads may release a Python file after the interpreter is gone, which aborts.
    try:
        check_ordinary(path)
        file = pa.OSFile(str(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, "there is no such file", str(path)) from None
    with file:
        return pq.read_table(file)

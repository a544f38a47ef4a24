"""Read files from outside: ordinary files only, and at most so many bytes of them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def check_ordinary(path: str | Path) -> None:
    """Raise OSError unless `path` is an ordinary file: reading a pipe could wait for ever, a device never end."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))


def read_bytes(path: str | Path, at_most: int | None = None, pipes: bool = False) -> bytes:
    """Read a file of at most `at_most` bytes (None: any number). Raises OSError, also for a longer one.

    `pipes`: also read what is no ordinary file, such as `/dev/stdin`, because the user asked for it.
    """
    if not pipes:
        check_ordinary(path)
    with open(path, "rb") as file:
        content = file.read(-1 if at_most is None else at_most + 1)
    if at_most is not None and len(content) > at_most:
        raise OSError(errno.EFBIG, f"must be at most {at_most // 10**6} MB long", str(path))
    return content


LARGEST_TABLE = 16 * 2**30
"""Most bytes that the columns of a Parquet file may take in memory."""


def read_parquet(path: Path) -> pa.Table:
    """Read the table in the file `path`. Raises FileNotFoundError, OSError, or pyarrow's errors for a damaged file.

    The footer says how many rows there are; a file that would take more memory than there is, is refused unread.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Opened here, because pyarrow would read a folder of that name as a table too, and columns from folders called a=b.
    # Opened by pyarrow, because its threads may release a Python file after the interpreter is gone, which aborts.
    try:
        check_ordinary(path)
        file = pa.OSFile(os.fsencode(path))  # a name may be no UTF-8
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, "there is no such file", str(path)) from None
    with file:
        needed = _bytes_in_memory(pq.ParquetFile(file))
        if needed > (most := min(LARGEST_TABLE, 0.7 * _free_bytes())):
            told = (
                f"it takes about {needed / 2**30:.1f} GiB in memory, more than the {most / 2**30:.1f} GiB left for it"
            )
            raise OSError(errno.EFBIG, told, str(path))
        file.seek(0)
        return pq.read_table(file)


def _bytes_in_memory(file: pq.ParquetFile) -> float:
    """Return about how many bytes the columns of a Parquet file take, from its footer: constant columns are tiny in a
    file and not in memory."""
    import pyarrow.types as types

    rows = file.metadata.num_rows
    fixed = [one.type.bit_width / 8 for one in file.schema_arrow if types.is_primitive(one.type)]
    other = len(file.schema_arrow) - len(fixed)
    stored = sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
    return float(max(stored, rows * (sum(fixed) + 8 * other)))


def _free_bytes() -> float:
    """Return the bytes of memory that are free on this machine; infinite where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(1024.0 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, ValueError, IndexError, StopIteration):
        return float("inf")

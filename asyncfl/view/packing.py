"""Columns of numbers and texts as one text that a page can carry: packed, compressed, in base64.

    gzip( length of the header (8 bytes) | header, JSON | columns, each at a multiple of 8 bytes )

Whatever stands in a run, a user's label for instance, reaches the page in this text only, of which no character means
anything in HTML.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

ALIGNED = 8
"""Every column begins at a multiple of so many bytes, as the browser's typed arrays need it."""

Ref: TypeAlias = dict[str, Any]
"""Where a column lies: `t` its type (i1, i2, i4, f8), `o` the offset in bytes, `n` its length; or `texts` and `codes`,
the column of their places."""


class Packing:
    """Columns one after another, and the text that they become."""

    def __init__(self) -> None:
        self._columns: list[bytes] = []
        self._length = 0

    def numbers(self, values: Any) -> Ref:
        """Add a column: integers and booleans in the smallest type that holds them, others as float64.

        Integers beyond 2^53 lose digits.
        """
        column = np.asarray(values)
        kinds = ("<i1", "<i2", "<i4") if column.dtype.kind in "iub" else ()
        least, most = (int(column.min(initial=0)), int(column.max(initial=0))) if kinds else (0, 0)
        fitting = (kind for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
        kind = np.dtype(next(fitting, "<f8"))
        content = column.astype(kind).tobytes()
        ref = {"t": f"{kind.kind}{kind.itemsize}", "o": self._length, "n": len(column)}
        self._columns.append(content + bytes(-len(content) % ALIGNED))
        self._length += len(self._columns[-1])
        return ref

    def texts(self, values: Sequence[str]) -> Ref:
        """Add a column of texts, each text that occurs once."""
        places = {text: place for place, text in enumerate(dict.fromkeys(values))}
        return {"texts": list(places), "codes": self.numbers(np.array([places[text] for text in values], np.int64))}

    def packed(self, header: Any) -> str:
        """Return the columns with the header that describes them. Raises ValueError for NaN and infinities in it."""
        text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % ALIGNED)
        whole = b"".join([len(text).to_bytes(ALIGNED, "little"), text, *self._columns])
        return base64.b64encode(gzip.compress(whole, compresslevel=6, mtime=0)).decode()

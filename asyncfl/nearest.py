"""The name that was meant, for messages about one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(name: object, known: Iterable[object], what: str) -> str:
    """`did you mean X?` where a known name is near, else `what: A, B, C`, all that are known."""
    listed = [str(one) for one in known]
    as_written = {one.lower(): one for one in listed}
    near = difflib.get_close_matches(str(name).lower(), as_written, n=1)
    return f"did you mean {as_written[near[0]]}?" if near else f"{what}: {', '.join(listed) or 'none'}"

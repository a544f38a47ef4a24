"""Where the modules are looked for that a scenario names (`kind: my_module:MyDetector`)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def look_for_modules_in(folder: str | Path) -> None:
    """Let modules be imported from `folder` too.

    It comes last, after all that is installed: a file beside a scenario that happens to be called `random.py` or
    `torch.py` takes nobody's place.
    """
    place = str(Path(folder).resolve())
    if place not in sys.path:
        sys.path.append(place)
        importlib.invalidate_caches()

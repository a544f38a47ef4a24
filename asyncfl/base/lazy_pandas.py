"""Keep Arrow from importing pandas before a table is converted to it.

Arrow imports pandas at its first array, to recognise pandas' own types among the values, which takes as long as a small
run. No type of pandas can be there before somebody has imported pandas: only then is Arrow told.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

PANDAS = "pandas"


def postpone_pandas() -> None:
    """Have Arrow import pandas when it is needed; no effect where pandas is imported already."""
    if PANDAS in sys.modules:
        return
    import pyarrow as pa

    # Pandas that is not found counts as absent, until a conversion asks for it or the finder tells Arrow.
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    finder.hides = False


class _Finder(MetaPathFinder):
    """Hides pandas at first, then finds it as usual, and tells Arrow once it is imported."""

    hides = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PANDAS:
            return None
        if self.hides:
            raise ModuleNotFoundError(f"No module named {PANDAS!r}", name=PANDAS)
        sys.meta_path.remove(self)
        found = PathFinder.find_spec(fullname, path)
        if found is not None and found.loader is not None:
            found.loader = _TellingLoader(found.loader)
        return found


class _TellingLoader(Loader):
    """Loads pandas as `loader` does, whose other attributes it has."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        import pyarrow as pa

        self._loader.exec_module(module)
        # Asking for the module has Arrow look for it again.
        _ = pa.lib._pandas_api.pd

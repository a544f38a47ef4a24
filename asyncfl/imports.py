"""What a module imports, read from its source: nothing is run, and imports inside functions count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """(module, name imported from it, or "" for the module itself), for each import in a module of `package`.

    Relative names are resolved against `package`, "" for a module at the top; a name may itself be a module.
    """
    parts = package.split(".") if package else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parts[: len(parts) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


def package_of(module: str, file: Path) -> str:
    """Package against which relative imports of a module are resolved."""
    return module if file.name == "__init__.py" else module.rpartition(".")[0]


def file_of(module: str, root: Path) -> Path | None:
    """File of `module` below the folder `root`; None where there is none. A package comes before a file of its name."""
    place = root.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)

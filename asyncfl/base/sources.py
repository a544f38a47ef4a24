"""Find the imports of Python modules from their source, without running it.

Imports inside functions count too. `own_modules` lists the modules that a user's component depends on: its own module,
and those that it imports from the same folder or below; of an installed package only the package itself. Other files
(a CSV that a component reads) are not covered.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Yield the imports of a module of `package`: (module, imported name, or "" for the module itself)."""
    parts = package.split(".") if package else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parts[: len(parts) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


def package_of(module: str, file: Path) -> str:
    """Return the package against which the relative imports of a module are resolved."""
    return module if file.name == "__init__.py" else module.rpartition(".")[0]


def file_of(module: str, root: Path) -> Path | None:
    """Return the file of `module` below `root`; None without one. A package precedes a file of the same name."""
    place = root.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def own_modules(names: Iterable[str]) -> dict[str, Path]:
    """Return the files of these imported modules and of all users' modules that they import, in alphabetical order."""
    found: dict[str, Path] = {}
    for name in names:
        path = _loaded(name)
        if path is None or _is_of_asyncfl(name):
            continue
        root = path.parents[name.count(".") + (path.name == "__init__.py")]
        # Of an installed package, only modules of the package are followed.
        installed = {"site-packages", "dist-packages"} & set(root.parts)
        inside = name.partition(".")[0] if installed else ""
        todo = [(name, path)]
        while todo:
            module, file = todo.pop()
            if module in found:
                continue
            found[module] = file
            for wanted in _imports(module, file):
                place = None if _is_of_asyncfl(wanted) else _place(wanted, root)
                if place is not None and (not inside or wanted.partition(".")[0] == inside):
                    todo.append((wanted, place))
    return dict(sorted(found.items()))


def _is_of_asyncfl(module: str) -> bool:
    return module.partition(".")[0] == "asyncfl"


def _loaded(name: str) -> Path | None:
    """Return the file of an imported module; None: it is not imported, or has no file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return None if file is None else Path(file)


def _place(module: str, root: Path) -> Path | None:
    """Return the file of a module below `root`; None without one, or where Python imports another of that name."""
    path = file_of(module, root)
    if path is None or module.partition(".")[0] in sys.stdlib_module_names:
        return None
    taken = _loaded(module)
    return None if taken is not None and taken.resolve() != path.resolve() else path


def _imports(module: str, file: Path) -> Iterator[str]:
    """Yield the names of possible modules that `module` imports, including their parent packages."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # a syntax error is reported by the import itself, if there is one
    for imported, name in imports(tree, package_of(module, file)):
        parts = [*imported.split("."), *([name] if name else [])]
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))

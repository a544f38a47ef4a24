"""What Python modules import, read from their source: nothing is run, and imports inside functions count too.

Of a component named by import path it tells the modules that it depends on (`own_modules`): the one that it is in, and
what this imports from beside it, in the folder from which it is imported or below; of an installed package only the
package itself is looked at. Files that are not Python (a CSV that a component reads) are not covered.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
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


def own_modules(names: Iterable[str]) -> dict[str, Path]:
    """Module -> its file, for these imported modules and all of the user's own that they import, in alphabetical order.

    Modules of asyncfl, and those without a file (typed into an interpreter), are left out.
    """
    found: dict[str, Path] = {}
    for name in names:
        path = _loaded(name)
        if path is None or _is_of_asyncfl(name):
            continue
        root, inside = _home(name, path)
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
    file = getattr(sys.modules.get(name), "__file__", None)
    return None if file is None else Path(file)


def _home(name: str, path: Path) -> tuple[Path, str]:
    """The folder that `name` is imported from, and the package to stay in: "" for a folder of the user's own."""
    above = name.count(".") + (path.name == "__init__.py")
    root = path.parents[above]
    installed = {"site-packages", "dist-packages"} & set(root.parts)
    return root, name.partition(".")[0] if installed else ""


def _place(module: str, root: Path) -> Path | None:
    """File of a module below `root`; None where there is none, or where Python takes another of that name."""
    path = file_of(module, root)
    if path is None or module.partition(".")[0] in sys.stdlib_module_names:
        return None
    taken = _loaded(module)
    return None if taken is not None and taken.resolve() != path.resolve() else path


def _imports(module: str, file: Path) -> Iterator[str]:
    """Names that may be modules which `module` imports, the packages around them included."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # it may stand in a branch that nobody takes; whoever imports it hears of it
    for imported, name in imports(tree, package_of(module, file)):
        yield from _with_packages(".".join(part for part in (imported, name) if part))


def _with_packages(module: str) -> Iterator[str]:
    parts = module.split(".")
    yield from (".".join(parts[: end + 1]) for end in range(len(parts)))

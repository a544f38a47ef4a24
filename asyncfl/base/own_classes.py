"""Import users' own classes by path (`my_module:MyDetector`), and find their modules and files.

`own_modules` lists the modules that a user's component depends on, from their source and without running it: its own
module, and those that it imports, also inside functions, from the same folder or below; of an installed package only
the package itself. Other files (a CSV that a component reads) are not covered.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from pathlib import Path

from asyncfl.base.errors import shortened

IMPORT_PATH = r"^\w+(\.\w+)*:\w+$"
"""Pattern of an import path: `package.module:Class`."""

_LONGEST = 200
"""Most characters of an error in a message."""


def look_for_modules_in(folder: str | Path) -> None:
    """Add `folder` to the places where a user's own classes and files are looked for.

    Python imports from there only once a class of the user's own is asked for, and after all installed packages: a file
    beside a scenario called `random.py` or `torch.py` never replaces the real module.
    """
    with suppress(OSError, RuntimeError):  # the working directory was removed, or a link leads to itself
        _beside.setdefault(str(Path(folder).resolve()))


def folders_of_modules() -> tuple[str, ...]:
    """Return the folders added by `look_for_modules_in`."""
    return tuple(_beside)


def reach_modules() -> None:
    """Let Python import from these folders."""
    if new := [place for place in _beside if place not in sys.path]:
        sys.path.extend(new)
        importlib.invalidate_caches()


_beside: dict[str, None] = {}
"""Folders added by `look_for_modules_in`, in order."""

_missing: list[tuple[list[str], bool]] = []
"""Components without code, and whether users' classes are imported, of each `missing_code` under way."""


@contextmanager
def missing_code(*, imports: bool) -> Iterator[list[str]]:
    """Collect in the list the components whose code is missing: kinds that were removed, and, unless `imports`, the
    import paths of users' classes, which are then refused."""
    _missing.append(([], imports))
    try:
        yield _missing[-1][0]
    finally:
        _missing.pop()


def note_removed(kind: str) -> None:
    """Add a removed kind to the list of the innermost `missing_code`, if there is one."""
    if _missing:
        _missing[-1][0].append(kind)


def own_file(name: str) -> Path:
    """Return the path of a user's file or folder that a scenario names.

    Looks in the working directory, beside the scenario, and in the folders of PYTHONPATH, in this order; where it is in
    none, returns the path in the first. Raises OSError, ValueError or RuntimeError for an impossible path (`~nobody`).
    """
    path = Path(name).expanduser()
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return next((place for place in (Path(folder, path) for folder in (".", *_beside, *named)) if place.exists()), path)


def own_class(path: str) -> object:
    """Import and return the object at `package.module:Class`.

    Raises ImportError with the failing file and line, whatever the module raises, SystemExit included. Ctrl-C is passed
    on.
    """
    if not re.fullmatch(IMPORT_PATH, path):
        raise ImportError(f"kind must be the import path of a class, my_module:MyClass, got {shortened(repr(path))}")
    module_name, _, class_name = path.partition(":")
    if (root := module_name.partition(".")[0]) in sys.stdlib_module_names:
        raise ImportError(f"{root!r} is a module of Python itself, which holds no class of yours; rename your file")
    if _missing and not _missing[-1][1]:
        _missing[-1][0].append(path)
        raise ImportError(f"{path} is code of your own, which is not imported here")
    reach_modules()
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]:
            reason = f"cannot import {module_name!r}: {error}; name its folder in PYTHONPATH"
        elif isinstance(error, AttributeError) and module_name in sys.modules:
            reason = f"module {module_name!r} has no {class_name!r}"
        else:
            reason = f"cannot import {module_name!r}: {describe_exception(error)}"
        raise ImportError(reason) from None


def describe_exception(error: BaseException) -> str:
    """Return one line about an exception of a user's code: file and line where known, type and message."""
    if isinstance(error, SyntaxError) and error.filename:
        place, line = error.filename, error.lineno
        what = f"{type(error).__name__}: {error.msg}"
    else:
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        place, line = next(((file, number) for file, number in reversed(frames) if _is_own(file)), ("", None))
        what = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SystemExit):
        what = f"it ends the program ({what})"
    said = shortened(" ".join(what.split()), _LONGEST)
    if isinstance(error, AttributeError) and is_dataclass(error.obj) and _is_of_asyncfl(type(error.obj).__module__):
        said += f"; it has {', '.join(name for name in dir(error.obj) if not name.startswith('_'))}"
    return f"{place}, line {line}: {said}" if place and line else said


def describe_user_exception(error: BaseException) -> str | None:
    """Return one line about an exception that a user's code raised: class, file, line, type and message.

    Returns None where no code of the user was running. Where `error` was raised because of the user's exception, that
    is described: Python makes a RuntimeError of a StopIteration, and the command line an exit of an EOFError. Ctrl-C is
    not described.
    """
    if isinstance(error, KeyboardInterrupt):
        return None
    frames = [
        (frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_own(frame.f_code.co_filename)
    ]
    if not frames:
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return None if before is None else describe_user_exception(before)
    code, itself = frames[0][0].f_code, frames[0][0].f_locals.get("self")
    name = code.co_qualname if itself is None else f"{type(itself).__module__}:{type(itself).__name__}.{code.co_name}"
    return f"{name} failed: {describe_exception(error)}"


def _is_own(file: str) -> bool:
    """Whether a file is the user's: not of this package, an installed one, or Python."""
    path = Path(file)
    if not path.is_absolute() or {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(home) for home in (Path(__file__).parents[1], sysconfig.get_path("stdlib")))


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

"""Classes of a user's own, imported by path (`my_module:MyDetector`), and where modules and files are looked for."""

from __future__ import annotations

import importlib
import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path

from asyncfl.errors import shortened

IMPORT_PATH = r"^\w+(\.\w+)*:\w+$"
"""How a class is named: `package.module:Class`."""

_LONGEST = 200
"""Characters of an error that are told."""


def look_for_modules_in(folder: str | Path) -> None:
    """Let modules be imported from `folder` too.

    It comes last, after all that is installed: a file beside a scenario that happens to be called `random.py` or
    `torch.py` takes nobody's place.
    """
    place = str(Path(folder).resolve())
    _beside.setdefault(place)
    if place not in sys.path:
        sys.path.append(place)
        importlib.invalidate_caches()


_beside: dict[str, None] = {}
"""Folders that `look_for_modules_in` was told, in order."""


def own_file(name: str) -> Path:
    """Where the file or folder of a user's own lies that a scenario names: in the working directory, beside a scenario
    that was read, or in a folder of PYTHONPATH, in this order; in the working directory where there is none.

    Raises OSError, ValueError or RuntimeError for what cannot be a path (a NUL in it, the ~ of nobody).
    """
    path = Path(name).expanduser()
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return next((place for place in (Path(folder, path) for folder in (".", *_beside, *named)) if place.exists()), path)


def own_class(path: str) -> object:
    """What the import path `package.module:Class` names.

    Raises ImportError, with the file and line at fault, whatever the module does when it is imported: it may not even
    end the program. Ctrl-C is passed on.
    """
    if not re.fullmatch(IMPORT_PATH, path):
        raise ImportError(f"kind must be the import path of a class, my_module:MyClass, got {shortened(repr(path))}")
    module_name, _, class_name = path.partition(":")
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
            reason = f"cannot import {module_name!r}: {told(error)}"
        raise ImportError(reason) from None


def told(error: BaseException) -> str:
    """An exception that a user's code raised, in one line: its place in that code, where known, and what it is."""
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
    return f"{place}, line {line}: {said}" if place and line else said


def blamed(error: BaseException) -> str | None:
    """An exception that came out of code of a user's own, in one line: the class that was called, its file and line
    where it failed, and what it is. None: nothing of the user's own was running."""
    frames = [
        (frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_own(frame.f_code.co_filename)
    ]
    if not frames:
        return None
    code, itself = frames[0][0].f_code, frames[0][0].f_locals.get("self")
    name = code.co_qualname if itself is None else f"{type(itself).__module__}:{type(itself).__name__}.{code.co_name}"
    return f"{name} failed: {told(error)}"


def _is_own(file: str) -> bool:
    """Whether a file is neither of this package, nor of another that is installed, nor of Python."""
    path = Path(file)
    if not path.is_absolute() or {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(home) for home in (Path(__file__).parent, sysconfig.get_path("stdlib")))

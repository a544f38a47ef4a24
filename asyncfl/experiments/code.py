"""Digest of the source code that a result depends on, so that only a change of it causes a rerun.

A run depends on the definitions that its own components and `asyncfl.api` use, directly or through others, see
`asyncfl.experiments.definitions`: a component that a scenario does not name may be edited or added without a rerun,
also in the same file as one that it names. A step after the runs depends on whole modules.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from pydantic import BaseModel

from asyncfl.base.component import components_in, own_files, own_sources
from asyncfl.base.own_classes import imports, package_of
from asyncfl.experiments.definitions import WHOLE, Name, digest_of, imported_by, parsed, path_of, resolved

ROOT = Name("asyncfl.api", WHOLE)
INSIDE = (
    *("asyncfl.experiments", "asyncfl.extras.audit", "asyncfl.extras.view"),
    *("asyncfl.results.figure_style", "asyncfl.results.contact_sheet"),
)
"""Packages and modules whose code counts in the digest of a step after the runs."""
STEPS = {
    "attacks": ("attacks",),
    "analysis": ("analysis", "verdicts"),
    "looks": ("next_looks",),
    "report": ("report",),
    "index": ("plan",),
}
"""Step of the workflow -> modules of this package that it begins with."""
TEXTS = {"report": (("asyncfl.experiments.site", "templates"), ("asyncfl.extras.view", "program"))}
"""Step -> package and folder of the texts that its pages are made from."""


def code_digest(scenario: BaseModel) -> str:
    """Return 16 hexadecimal digits over the code that can change a run of this scenario."""
    digest, own = _of_package(_roots(scenario)), own_sources(scenario)
    return digest if not own else hashlib.sha256(repr([digest, own]).encode()).hexdigest()[:16]


def _roots(scenario: BaseModel) -> frozenset[Name]:
    """Return the definitions of this package that a run of this scenario begins with."""
    classes = {above for cls in {type(part) for part in components_in(scenario)} for above in cls.__mro__}
    roots = {Name(cls.__module__, cls.__qualname__.partition(".")[0]) for cls in classes}
    for module, file in own_files(scenario).items():
        roots |= {Name(origin, name or WHOLE) for origin, name in _imports(file.read_bytes(), package_of(module, file))}
    if (audit := getattr(getattr(scenario, "evaluation", None), "audit", None)) is not None:
        roots.add(Name(*audit.instrument_path.split(":")))
    return frozenset({ROOT, *filter(None, map(resolved, roots))})


@cache
def _imports(source: bytes, package: str) -> tuple[tuple[str, str], ...]:
    return tuple(imports(ast.parse(source), package))


_of_package = cache(digest_of)


def combined(codes: Iterable[str]) -> str:
    """Return one digest for several; of equal ones that one."""
    different = sorted(set(codes))
    if len(different) == 1:
        return different[0]
    return hashlib.sha256(" ".join(different).encode()).hexdigest()[:16]


def modules_digest(*roots: str) -> str:
    """Return 16 hex digits over these modules and all they import of `INSIDE`."""
    texts = [f"{name}\n{_module(name)[0]}\n" for name in sorted(modules_reached(frozenset(roots)))]
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


def step_digest(step: str) -> str:
    """Return 16 hex digits over the code, and the texts of pages, of a step of the workflow."""
    digest = modules_digest(*(f"asyncfl.experiments.{name}" for name in STEPS[step]))
    folders = [files(package).joinpath(folder) for package, folder in TEXTS.get(step, ())]
    texts = sorted((text.name, text.read_bytes()) for folder in folders for text in folder.iterdir() if text.is_file())
    return combined([digest, hashlib.sha256(repr(texts).encode()).hexdigest()[:16]]) if texts else digest


@cache
def modules_reached(roots: frozenset[str]) -> frozenset[str]:
    """Return these modules and all modules of `INSIDE` that they import, directly or through others."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += _module(name)[1]
    return frozenset(seen)


@cache
def _module(name: str) -> tuple[str, list[str]]:
    """Return the source of a module, without comments and docstrings, and the modules of `INSIDE` that it imports."""
    tree = parsed(name)
    imported = [
        whole if path_of(whole := f"{origin.module}.{origin.name}") else origin.module
        for _, origin in imported_by(tree, name)
    ]
    return ast.dump(tree), [module for module in imported if module.startswith(INSIDE) and path_of(module)]

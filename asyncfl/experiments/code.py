"""Digest of the source code that a result depends on, so that only a change of it causes a rerun.

A run depends on every module that can be reached from `asyncfl.api` by imports, except the components it does not name:
an attack that a scenario does not use may be edited or added without a rerun. Docstrings and comments do not count, nor
do the lists of components that a scenario may choose from (calls of `choice`, imports and re-exports of components).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel

from asyncfl.base.component import components_in, own_sources
from asyncfl.base.own_classes import file_of, imports, package_of

ROOT = "asyncfl.api"
INSIDE = (
    *("asyncfl.experiments", "asyncfl.audit", "asyncfl.view"),
    *("asyncfl.base.figure_style", "asyncfl.base.contact_sheet"),
)
"""Packages and modules whose code counts in the digest of a step after the runs."""
STEPS = {
    "attacks": ("attacks",),
    "analysis": ("analysis", "verdicts"),
    "looks": ("next_looks",),
    "report": ("report",),
}
"""Step of the workflow -> modules of this package that it begins with."""
TEXTS = {"report": (("asyncfl.experiments.site", "templates"), ("asyncfl.view", "program"))}
"""Step -> package and folder of the texts that its pages are made from."""


@dataclass(frozen=True)
class _Source:
    """A module as the digest sees it."""

    components: frozenset[str]
    """Classes of it that a scenario names by kind."""
    text: str
    """`ast.dump` without docstrings and lists of components."""
    imports: tuple[tuple[str, str], ...]
    """(module, name imported from it, or '')."""


def code_digest(scenario: BaseModel, root: str = ROOT) -> str:
    """Return 16 hex digits over the code that can change a run of this scenario."""
    used = {type(part) for part in components_in(scenario)}
    used_modules = frozenset(cls.__module__ for cls in used if cls.__module__.startswith("asyncfl."))
    own = [f"{module}\n{digest}\n" for module, digest in own_sources(scenario).items()]
    return _digest(_reached(frozenset([root]) | used_modules, used_modules), "".join(own))


def combined(codes: Iterable[str]) -> str:
    """Return one digest for several; of equal ones that one."""
    different = sorted(set(codes))
    if len(different) == 1:
        return different[0]
    return hashlib.sha256(" ".join(different).encode()).hexdigest()[:16]


def modules_digest(*roots: str) -> str:
    """Return 16 hex digits over these modules and all they import of `INSIDE`."""
    return _digest(_reached(frozenset(roots), None, INSIDE))


def step_digest(step: str) -> str:
    """Return 16 hex digits over the code, and the texts of pages, of a step of the workflow."""
    digest = modules_digest(*(f"asyncfl.experiments.{name}" for name in STEPS[step]))
    folders = [files(package).joinpath(folder) for package, folder in TEXTS.get(step, ())]
    texts = sorted((text.name, text.read_bytes()) for folder in folders for text in folder.iterdir() if text.is_file())
    return combined([digest, hashlib.sha256(repr(texts).encode()).hexdigest()[:16]]) if texts else digest


@cache
def _digest(modules: frozenset[str], own: str = "") -> str:
    texts = [f"{name}\n{_source(name).text}\n" for name in sorted(modules)]
    return hashlib.sha256("".join([*texts, own]).encode()).hexdigest()[:16]


@cache
def _reached(
    roots: frozenset[str], used: frozenset[str] | None, inside: str | tuple[str, ...] = "asyncfl"
) -> frozenset[str]:
    """Return the modules reached from the roots by imports; modules that are no component lead to `used` ones only."""
    seen: set[str] = set()
    todo = [name for name in roots if _path(name) is not None]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        source = _source(name)
        for module, imported in source.imports:
            target = f"{module}.{imported}" if imported and _path(f"{module}.{imported}") else module
            if not target.startswith(inside) or _path(target) is None:
                continue
            is_component = target == module and imported in _source(target).components
            if used is None or not is_component or source.components or target in used:
                todo.append(target)
    return frozenset(seen)


@cache
def _path(module: str) -> Path | None:
    if module != "asyncfl" and not module.startswith("asyncfl."):
        return None
    return file_of(module, Path(__file__).resolve().parents[2])


@cache
def _source(module: str) -> _Source:
    path = _path(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    components = frozenset(
        node.name
        for node in classes
        for item in node.body  # a component defines `kind: Literal[...] = ...`
        if isinstance(item, ast.AnnAssign) and getattr(item.target, "id", "") == "kind" and item.value is not None
    )
    imported = tuple(imports(tree, package_of(module, path)))
    return _Source(components, ast.dump(_Strip(not components).visit(tree)), imported)


class _Strip(ast.NodeTransformer):
    """Removal of code that cannot change a result: docstrings; in modules that are no component also imports, `__all__`
    and the arguments of `choice`."""

    def __init__(self, lists_components: bool) -> None:
        self.lists_components = lists_components

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        inside = bool(node.level) or (node.module or "").startswith("asyncfl")
        return None if self.lists_components and inside else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        lists_names = any(getattr(target, "id", "") == "__all__" for target in node.targets)
        return None if lists_names else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Constant("choice") if getattr(node.func, "id", "") == "choice" else self.generic_visit(node)

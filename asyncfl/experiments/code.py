"""Digest of the source that a result depends on, so that only what can change it makes a rerun.

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
from asyncfl.base.sources import file_of, imports, package_of

ROOT = "asyncfl.api"
INSIDE = (
    "asyncfl.experiments",
    "asyncfl.audit",
    "asyncfl.view",
    "asyncfl.base.figure_style",
    "asyncfl.base.contact_sheet",
)
"""Packages and modules whose code counts in the digest of a step after the runs."""
STEPS = {
    "attacks": ("asyncfl.experiments.attacks", "asyncfl.experiments.attacks"),
    "analysis": (
        "asyncfl.experiments.table_files",
        "asyncfl.experiments.figure_files",
        "asyncfl.experiments.verdicts",
    ),
    "looks": ("asyncfl.experiments.next_looks",),
    "pages": ("asyncfl.experiments.site.runs",),
    "report": ("asyncfl.experiments.report",),
}
"""Step of the workflow -> modules that it begins with."""
TEXTS = {"report": ("asyncfl.experiments.site", "templates"), "pages": ("asyncfl.view", "program")}
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
    """16 hex digits over the code that can change a run of this scenario."""
    used = {type(part) for part in components_in(scenario)}
    used_modules = frozenset(cls.__module__ for cls in used if cls.__module__.startswith("asyncfl."))
    own = [f"{module}\n{digest}\n" for module, digest in own_sources(scenario).items()]
    return _digest(_reached(frozenset([root]) | used_modules, used_modules), own)


def combined(codes: Iterable[str]) -> str:
    """One digest for several; of equal ones that one."""
    different = sorted(set(codes))
    if len(different) == 1:
        return different[0]
    return hashlib.sha256(" ".join(different).encode()).hexdigest()[:16]


def modules_digest(*roots: str) -> str:
    """16 hex digits over these modules and all they import of `INSIDE`."""
    return _digest(_reached(frozenset(roots), None, INSIDE))


def step_digest(step: str) -> str:
    """16 hex digits over the code, and the texts of pages, that a step of the workflow depends on."""
    digest = modules_digest(*STEPS[step])
    return combined([digest, texts_digest(*TEXTS[step])]) if step in TEXTS else digest


def texts_digest(package: str, folder_name: str) -> str:
    """16 hex digits over the texts in a folder of a package that pages are made from."""
    folder = files(package).joinpath(folder_name)
    texts = sorted((text.name, text.read_bytes()) for text in folder.iterdir() if text.is_file())
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def _digest(modules: Iterable[str], more: Iterable[str] = ()) -> str:
    digest = hashlib.sha256()
    for name in sorted(modules):
        digest.update(f"{name}\n{_source(name).text}\n".encode())
    for text in more:
        digest.update(text.encode())
    return digest.hexdigest()[:16]


@cache
def _reached(
    roots: frozenset[str], used: frozenset[str] | None, inside: str | tuple[str, ...] = "asyncfl"
) -> frozenset[str]:
    """Modules reached from the roots by imports; from a module that is no component only `used` components count."""
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
            is_component = imported in _source(target).components if target == module else False
            skip = used is not None and is_component and not source.components and target not in used
            if not skip:
                todo.append(target)
    return frozenset(seen)


@cache
def _path(module: str) -> Path | None:
    """File of a module of the package; None where there is no such module."""
    if module != "asyncfl" and not module.startswith("asyncfl."):
        return None
    return file_of(module, Path(__file__).resolve().parents[2])


@cache
def _source(module: str) -> _Source:
    path = _path(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    components = frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef) and _is_component(node))
    imported = tuple(imports(tree, package_of(module, path)))
    return _Source(components, ast.dump(_Strip(not components).visit(tree)), imported)


def _is_component(node: ast.ClassDef) -> bool:
    """Whether this defines a class with `kind: Literal[...]`."""
    return any(
        isinstance(item, ast.AnnAssign) and getattr(item.target, "id", "") == "kind" and item.value is not None
        for item in node.body
    )


class _Strip(ast.NodeTransformer):
    """Removes what cannot change a result: docstrings; in modules that are no component also imports, `__all__` and the
    arguments of `choice`."""

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

"""Definitions in the source of this package, and which other definitions each of them uses.

A definition is a function, class or constant at the top level of a module. It uses the definitions that its source
names, wherever they are imported from; `reached` follows these names from one definition to the next.

Of components, four mentions are not followed: as a member of `choice(...)`, as the default of a field that holds such a
choice, as a type, and in `__all__`. They change no run whose scenario does not hold the component. Docstrings and
comments do not count. Statements that define nothing, such as a call at the top level, belong to every definition of
their module.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from asyncfl.base.own_classes import file_of, imports, package_of

FOLDER = Path(__file__).resolve().parents[2]
"""Folder that holds the package."""
WHOLE = "*"
"""Name that stands for all definitions of a module."""
EFFECTS = ""
"""Name that stands for the statements of a module that define nothing."""


class Name(NamedTuple):
    """A definition: its module and its name in there."""

    module: str
    name: str


CHOICE = Name("asyncfl.base.component", "choice")
"""The function that lists the components that a field may hold."""
COMPONENT = Name("asyncfl.base.component", "Component")
"""The base class of components."""


@dataclass(frozen=True)
class ModuleSource:
    """A module, parsed, without docstrings."""

    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    """Name -> the top-level statements that define it."""
    imported: dict[str, Name] = field(default_factory=dict)
    """Name -> what it is imported from."""


@dataclass(frozen=True)
class Definition:
    """A definition as the digest sees it."""

    digest: bytes
    """Digest of its source, and of what its names stand for."""
    uses: frozenset[Name]
    """Definitions of this package that it names."""


@cache
def path_of(module: str) -> Path | None:
    """Return the file of a module of this package; None without one."""
    return file_of(module, FOLDER) if module.partition(".")[0] == "asyncfl" else None


def read_source(module: str) -> str:
    """Return the source of a module of this package."""
    path = path_of(module)
    assert path is not None, module
    return path.read_text(encoding="utf-8")


def parsed(module: str) -> ast.Module:
    """Parse a module of this package, and remove its docstrings."""
    tree: ast.Module = _WithoutDocstrings().visit(ast.parse(read_source(module)))
    return tree


@cache
def source_of(module: str) -> ModuleSource:
    """Parse a module of this package, and sort its statements by the names that they define."""
    source = ModuleSource()
    for statement in _top_level(parsed(module).body):
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            source.imported.update(imported_by(statement, module))
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            for name in _defined_by(statement):
                source.statements.setdefault(name, []).append(statement)
    source.statements.pop("__all__", None)
    return source


class _WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those under `if TYPE_CHECKING` and its `else` included."""
    for statement in body:
        if isinstance(statement, ast.If) and getattr(statement.test, "id", "") == "TYPE_CHECKING":
            yield from _top_level([*statement.body, *statement.orelse])
        else:
            yield statement


def imported_by(tree: ast.AST, module: str) -> Iterator[tuple[str, Name]]:
    """Yield the names that imports inside of a statement bind, and what they stand for."""
    path = path_of(module)
    package = module if path is None else package_of(module, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias, (origin, name) in zip(node.names, imports(node, package), strict=True):
                bound = alias.asname or (alias.name if name else alias.name.partition(".")[0])
                yield bound, Name(origin, name or WHOLE)


def _defined_by(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement defines; `[EFFECTS]` if there are none."""
    names = [
        node.id if isinstance(node, ast.Name) else node.name
        for node in _in_the_same_scope(statement)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return names or [EFFECTS]


def _in_the_same_scope(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _in_the_same_scope(child)


@cache
def resolved(name: Name) -> Name | None:
    """Return the definition that a name stands for, through re-exports; None for one of another package."""
    if path_of(name.module) is None:
        return None
    source = source_of(name.module)
    if name.name in (WHOLE, EFFECTS) or name.name in source.statements:
        return name
    if name.name in source.imported:
        return resolved(source.imported[name.name])
    module = f"{name.module}.{name.name}"
    return Name(module, WHOLE) if path_of(module) else Name(name.module, WHOLE)


def _stands_for(name: str, module: str) -> Name | None:
    """Return what a name in the source of a module stands for; None for built-in and local names."""
    source = source_of(module)
    if name in source.statements:
        return Name(module, name)
    if name in source.imported:
        return resolved(source.imported[name]) or source.imported[name]
    return None


@cache
def definition(name: Name) -> Definition:
    """Return the definition of this name, or all those of a module (`WHOLE`)."""
    source = source_of(name.module)
    if name.name == WHOLE:
        members = {Name(name.module, one) for one in source.statements}
        again = {found for one in source.imported if (found := _stands_for(one, name.module)) and path_of(found.module)}
        return Definition(b"", frozenset(members | again))
    names = _Names(name.module)
    statements = [names.visit(statement) for statement in source.statements.get(name.name, ())]
    outside = sorted(str(one) for one in names.found if path_of(one.module) is None)
    inside = {one for one in names.found if path_of(one.module) is not None}
    text = repr([name, [ast.dump(one) for one in statements], outside, sorted(inside)])
    if EFFECTS in source.statements:
        inside.add(Name(name.module, EFFECTS))
    return Definition(hashlib.sha256(text.encode()).digest(), frozenset(inside - {name}))


class _Names(ast.NodeTransformer):
    """Collect what the names in a statement stand for, and remove the members of `choice`."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.found: set[Name] = set()
        self.is_type = False
        """Whether names are read in an annotation."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        found = _stands_for(node.id, self.module)
        if found is not None and not (self.is_type and is_component(found)):
            self.found.add(found)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        found = _stands_for(node.value.id, self.module) if isinstance(node.value, ast.Name) else None
        if found is not None and found.name == WHOLE:
            self.found.add(resolved(Name(found.module, node.attr)) or found)
            return node
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST:
        self.found |= {resolved(name) or name for _, name in imported_by(node, self.module)}
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        self.found |= {resolved(name) or name for _, name in imported_by(node, self.module)}
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_choice(node, self.module):
            node = ast.Call(node.func, node.args[:1], [])
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self._visit_type(node.annotation)
        if node.value is not None and not _offers_choice(node.annotation, self.module):
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        self._visit_type(node.annotation)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._visit_type(node.returns)
        node.args = self.visit(node.args)
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        node.body = [self.visit(one) for one in node.body]
        return node

    def _visit_type(self, annotation: ast.expr | None) -> None:
        if annotation is not None:
            self.is_type = True
            self.visit(annotation)
            self.is_type = False


def _is_choice(node: ast.AST, module: str) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _stands_for(node.func.id, module) == CHOICE
    )


def _offers_choice(tree: ast.AST, module: str) -> bool:
    """Whether a type names, directly or by an alias, the annotation that `choice` makes."""
    for node in ast.walk(tree):
        if _is_choice(node, module):
            return True
        if isinstance(node, ast.Name) and (named := _stands_for(node.id, module)) and _is_alias_of_choice(named):
            return True
    return False


@cache
def is_component(name: Name) -> bool:
    """Whether a name stands for a class derived from `Component`, or for that class."""
    statements = source_of(name.module).statements.get(name.name, ()) if path_of(name.module) else ()
    bases = [
        base.id for one in statements if isinstance(one, ast.ClassDef) for base in one.bases if hasattr(base, "id")
    ]
    above = [found for base in bases if (found := _stands_for(base, name.module))]
    return name == COMPONENT or any(map(is_component, above))


@cache
def _is_alias_of_choice(name: Name) -> bool:
    statements = source_of(name.module).statements.get(name.name, ()) if path_of(name.module) else ()
    values = [one.value for one in statements if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None]
    return any(_offers_choice(value, name.module) for value in values)


@cache
def reached(root: Name) -> frozenset[Name]:
    """Return all definitions that one definition uses, directly or through others, and itself."""
    seen: set[Name] = set()
    todo = [root]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += definition(name).uses
    return frozenset(seen)


def digest_of(roots: Iterable[Name]) -> str:
    """Return 16 hexadecimal digits over all definitions that these definitions use."""
    names = frozenset[Name]().union(*map(reached, roots))
    return hashlib.sha256(b"".join(sorted(definition(name).digest for name in names))).hexdigest()[:16]

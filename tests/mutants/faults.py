"""Small faults that can be put into a file: one operator, comparison, constant or returned value that is another.

Left out is what nobody can see: `strict` of `zip` (whose lengths are equal unless something else is wrong), and None
instead of a returned False.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.BitAnd: "|", ast.MatMult: "*",
}  # fmt: skip
COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One fault: which file, where, what stands there and what is put in its place."""

    file: str
    line: int
    first: int
    """First and last line of the statement (of its head, where it has a body) that holds the fault."""
    last: int
    start: int
    """Where the replaced text begins and ends in the file, in bytes."""
    stop: int
    before: str
    after: str
    kind: str
    at_import: bool
    """Whether it runs while the module is imported, so that nothing says which tests depend on it."""

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line}:{self.start} {self.before.strip()!r} -> {self.after.strip()!r}"

    def put(self, source: bytes) -> bytes:
        """The file with the fault in it."""
        return source[: self.start] + self.after.encode() + source[self.stop :]


@dataclass(frozen=True)
class _Place:
    node: ast.AST
    head: tuple[int, int] = (1, 1)
    at_import: bool = True
    returned: bool = False


def mutants_of(path: Path, root: Path) -> Iterator[Mutant]:
    """All faults that can be put into a file; `file` is told relative to `root`."""
    source = path.read_bytes()
    name = str(path.relative_to(root))
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    for place in _places(ast.parse(source)):
        node = place.node
        if not isinstance(node, ast.expr) or not _stands_at(node, source[slice(*span(node))]):
            continue  # Python 3.11 tells wrong places for what stands inside an f-string
        for after, kind, pair in _changes(node, place.returned):
            start, stop = (span(pair[0])[1], span(pair[1])[0]) if pair else span(node)
            if pair and any(mark in source[start:stop] for mark in b"()#\\"):
                continue
            number = source.count(b"\n", 0, start) + 1
            before = source[start:stop].decode()
            yield Mutant(name, number, *place.head, start, stop, before, after, kind, place.at_import)


def _changes(node: ast.expr, returned: bool) -> Iterator[tuple[str, str, tuple[ast.expr, ast.expr] | None]]:
    """What can stand in a node's place, or between two parts of it."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield f" {OPERATORS[type(node.op)]} ", "operator", (node.left, node.right)
    elif isinstance(node, ast.BoolOp):
        other = "or" if isinstance(node.op, ast.And) else "and"
        yield f" {other} ", "operator", (node.values[0], node.values[1])
    elif isinstance(node, ast.Compare):
        yield f" {COMPARISONS[type(node.ops[0])]} ", "comparison", (node.left, node.comparators[0])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = node.value
        yield (
            repr((not value) if isinstance(value, bool) else value + 1 if value in (0, 1) else 2 * value),
            "constant",
            None,
        )
    if returned and ast.unparse(node) not in ("None", "False"):
        yield "None", "return", None


def _stands_at(node: ast.expr, text: bytes) -> bool:
    """Whether the text at a node's place says what the node says."""
    try:
        return ast.dump(ast.parse(b"(" + text + b")", mode="eval").body) == ast.dump(node)
    except SyntaxError:
        return False


def _places(tree: ast.Module) -> Iterator[_Place]:
    """Every node: the lines of its statement, whether it runs at import, whether it is what a function returns."""
    waiting = [_Place(tree)]
    while waiting:
        place = waiting.pop()
        node, head = place.node, place.head
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            head = node.lineno, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        yield place
        later: set[int] = set()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            later = {id(one) for one in node.body}
        elif isinstance(node, ast.Lambda):
            later = {id(node.body)}
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword) and child.arg == "strict" and ast.unparse(node).startswith("zip("):
                continue
            at_import = place.at_import and id(child) not in later
            waiting.append(_Place(child, head, at_import, returned=isinstance(node, ast.Return)))

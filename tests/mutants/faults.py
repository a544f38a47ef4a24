"""Small faults that can be put into a file: one operator, comparison, constant or returned value that is another.

Left out is what nobody can see: `strict` of `zip` (whose lengths are equal unless something else is wrong), and None
instead of a returned False.
"""

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
    start: int
    """Where the replaced text begins and ends in the file, in bytes."""
    stop: int
    before: str
    after: str

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line}:{self.start} {self.before.strip()!r} -> {self.after.strip()!r}"

    def put(self, source: bytes) -> bytes:
        """Return the file with the fault in it."""
        return source[: self.start] + self.after.encode() + source[self.stop :]


def mutants_of(path: Path, root: Path) -> Iterator[Mutant]:
    """Yield all faults that can be put into a file, which is named relative to `root`."""
    source = path.read_bytes()
    name = str(path.relative_to(root))
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    for node, returned in _expressions(ast.parse(source)):
        if not _stands_at(node, source[slice(*span(node))]):
            continue  # Python 3.11 tells wrong places for what stands inside an f-string
        for after, pair in _changes(node, returned):
            start, stop = (span(pair[0])[1], span(pair[1])[0]) if pair else span(node)
            if pair and any(mark in source[start:stop] for mark in b"()#\\"):
                continue
            number = source.count(b"\n", 0, start) + 1
            before = source[start:stop].decode()
            yield Mutant(name, number, start, stop, before, after)


def _changes(node: ast.expr, returned: bool) -> Iterator[tuple[str, tuple[ast.expr, ast.expr] | None]]:
    """Yield what can stand in a node's place, or between two parts of it."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield f" {OPERATORS[type(node.op)]} ", (node.left, node.right)
    elif isinstance(node, ast.BoolOp):
        yield " or " if isinstance(node.op, ast.And) else " and ", (node.values[0], node.values[1])
    elif isinstance(node, ast.Compare):
        yield f" {COMPARISONS[type(node.ops[0])]} ", (node.left, node.comparators[0])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield repr(not node.value), None
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield repr(node.value + 1 if node.value in (0, 1) else 2 * node.value), None
    if returned and ast.unparse(node) not in ("None", "False"):
        yield "None", None


def _stands_at(node: ast.expr, text: bytes) -> bool:
    """Whether the text at a node's place says what the node says."""
    try:
        return ast.dump(ast.parse(b"(" + text + b")", mode="eval").body) == ast.dump(node)
    except SyntaxError:
        return False


def _expressions(tree: ast.Module) -> Iterator[tuple[ast.expr, bool]]:
    """Yield every expression, and whether it is what a function returns."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, returned = waiting.pop()
        if isinstance(node, ast.expr):
            yield node, returned
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword) and child.arg == "strict" and ast.unparse(node).startswith("zip("):
                continue
            waiting.append((child, isinstance(node, ast.Return)))

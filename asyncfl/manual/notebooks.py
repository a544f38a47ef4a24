"""Notebooks run cell by cell in this process, and as pages with what their cells print, return and draw.

No kernel is started: a cell is plain Python, its last expression is its value. Figures are those that matplotlib has
open when a cell ends.
"""

from __future__ import annotations

import ast
import base64
import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTEBOOKS = ("first-run", "own-defence", "what-epsilon-is-worth")
"""Names of the files in `docs/notebooks`."""


@dataclass(frozen=True)
class NotebookCell:
    """A cell of a notebook."""

    is_code: bool
    source: str
    outputs: int = 0
    """Outputs that the file holds of it."""


@dataclass(frozen=True)
class CellOutput:
    """What a cell came to."""

    cell: NotebookCell
    printed: str = ""
    value: Any = None
    """Of its last expression; None: there is none."""
    figures: tuple[bytes, ...] = ()
    """PNG files of what it drew."""


def cells_of(path: str | Path) -> list[NotebookCell]:
    """The cells of a notebook file."""
    file = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        NotebookCell(one["cell_type"] == "code", "".join(one["source"]), len(one.get("outputs", ())))
        for one in file["cells"]
    ]


def run_notebook(path: str | Path) -> list[CellOutput]:
    """What each cell comes to, in order; an exception of a cell is raised."""
    import matplotlib

    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_run(cell, names, f"{path}, cell {number}") for number, cell in enumerate(cells_of(path))]


def _run(cell: NotebookCell, names: dict[str, Any], called: str) -> CellOutput:
    if not cell.is_code:
        return CellOutput(cell)
    body = ast.parse(cell.source, called).body
    last = body[-1] if body and isinstance(body[-1], ast.Expr) else None
    body = body if last is None else body[:-1]
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), called, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), called, "eval"), names)
    return CellOutput(cell, printed.getvalue(), value, tuple(_png(figure) for figure in _figures(value)))


def _figures(value: Any) -> list[Figure]:
    """A figure that is the cell's value, and the open ones, which are closed by that."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    opened = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    return [value] if isinstance(value, Figure) else opened


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110, bbox_inches="tight")
    return file.getvalue()


def notebook_page(path: str | Path) -> str:
    """The notebook as Markdown, with what its cells come to when they are run now."""
    name = Path(path).name
    blocks = []
    for output in run_notebook(path):
        if not output.cell.is_code:
            blocks.append(output.cell.source)
            continue
        blocks.append(f"```python\n{output.cell.source}\n```")
        shown = output.value is not None and not output.figures
        told = output.printed + (f"{output.value}\n" if shown else "")
        if told:
            blocks.append(f"```text\n{told}```")
        for figure in output.figures:
            blocks.append(f"![figure](data:image/png;base64,{base64.b64encode(figure).decode()})")
    blocks.append(f"The notebook: [{name}]({name}).")
    return "\n\n".join(blocks) + "\n"

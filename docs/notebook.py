"""Run notebooks cell by cell in this process, and show them as pages with their output.

A cell is plain Python and its last expression is its value. mkdocs-jupyter would need a kernel, and its pages load
scripts from the network.
"""

from __future__ import annotations

import ast
import base64
import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTEBOOKS = ("first-run", "own-defence", "what-epsilon-is-worth")
"""Names of the files in `docs/notebooks`."""


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook and its output."""

    is_code: bool
    source: str
    printed: str = ""
    value: Any = None
    figures: tuple[bytes, ...] = ()
    """PNG files of the figures that the cell drew."""


def run_notebook(path: str | Path) -> list[Cell]:
    """Run a notebook file and return its cells, in order. Exceptions of cells are raised."""
    import matplotlib

    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    return [
        _run("".join(cell["source"]), names, f"{path}, cell {number}")
        if cell["cell_type"] == "code"
        else Cell(False, "".join(cell["source"]))
        for number, cell in enumerate(cells)
    ]


def _run(source: str, names: dict[str, Any], place: str) -> Cell:
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    body = ast.parse(source, place).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), place, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    figures = [value] if isinstance(value, Figure) else [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    return Cell(True, source, printed.getvalue(), value, tuple(map(_png, figures)))


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110, bbox_inches="tight")
    return file.getvalue()


def notebook_page(path: str | Path) -> str:
    """Run a notebook and return it as Markdown with its output."""
    blocks = []
    for cell in run_notebook(path):
        if not cell.is_code:
            blocks.append(cell.source)
            continue
        blocks.append(f"```python\n{cell.source}\n```")
        output = cell.printed + (f"{cell.value}\n" if cell.value is not None and not cell.figures else "")
        if output:
            blocks.append(f"```text\n{output}```")
        blocks += [f"![figure](data:image/png;base64,{base64.b64encode(one).decode()})" for one in cell.figures]
    name = Path(path).name
    return "\n\n".join([*blocks, f"The notebook: [{name}]({name})."]) + "\n"

"""What cells of a notebook come to, and how they stand on a page."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from asyncfl.manual.notebooks import cells_of, notebook_page, run_notebook

CELLS: list[tuple[str, str]] = [
    ("markdown", "# Title\nwords"),
    ("code", "x = 3\nprint('seen')"),
    ("code", "print(x, __name__)\nx + 4"),
    ("code", "import matplotlib.pyplot as plt\nfigure = plt.figure(figsize=(1, 1))\nfigure.text(0, 0, 'a')\nNone"),
    ("code", "plt.figure(figsize=(2, 1)).text(0, 0, 'b')\nfigure"),
    ("code", ""),
]


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cells: list[dict[str, Any]] = [
        {"cell_type": kind, "source": source.splitlines(keepends=True)} for kind, source in CELLS
    ]
    cells[1]["outputs"] = [{}, {}]
    path = tmp_path / "made.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_cells_are_read_as_they_stand_in_the_file(notebook: Path) -> None:
    cells = cells_of(notebook)
    assert [cell.source for cell in cells] == [source for _, source in CELLS]
    assert [cell.is_code for cell in cells] == [False, True, True, True, True, True]
    assert [cell.outputs for cell in cells] == [0, 2, 0, 0, 0, 0]


def test_a_cell_has_printed_text_a_value_and_figures(notebook: Path) -> None:
    outputs = run_notebook(notebook)
    assert [one.printed for one in outputs] == ["", "seen\n", "3 __main__\n", "", "", ""]
    assert [one.value for one in outputs[:4]] == [None, None, 7, None]
    assert [len(one.figures) for one in outputs] == [0, 0, 0, 1, 1, 0]
    drawn, shown = (outputs[place].figures[0] for place in (3, 4))
    assert drawn == shown  # the figure that is the value, not the one that is open
    assert drawn.startswith(b"\x89PNG")


def test_an_error_names_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "bad.ipynb"
    cells = [{"cell_type": "code", "source": [source]} for source in ("1", "1 / 0")]
    path.write_text(json.dumps({"cells": cells}))
    with pytest.raises(ZeroDivisionError) as found:
        run_notebook(path)
    assert found.traceback[-1].frame.code.raw.co_filename == f"{path}, cell 1"


def test_a_page_shows_cells_and_their_outputs(notebook: Path) -> None:
    page = notebook_page(notebook)
    before, picture, after = (part for part in page.split("![figure]", 1)[0:1]), *page.split("![figure]")[1:]
    assert "".join(before).startswith(
        "# Title\nwords\n\n```python\nx = 3\nprint('seen')\n```\n\n```text\nseen\n```\n\n"
        "```python\nprint(x, __name__)\nx + 4\n```\n\n```text\n3 __main__\n7\n```\n\n```python\nimport matplotlib"
    )
    encoded = picture.removeprefix("(data:image/png;base64,").partition(")")[0]
    assert base64.b64decode(encoded).startswith(b"\x89PNG")
    assert after.endswith(")\n\n```python\n\n```\n\nThe notebook: [made.ipynb](made.ipynb).\n")
    assert "Figure(" not in page  # a figure is drawn, not named

"""`asyncfl data` as far as it prints what others found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asyncfl import data
from asyncfl.analysis import holdings_figure


@pytest.mark.parametrize(("clients", "rows", "left"), [(4, 4, "the first 4 of "), (5, 5, ""), (6, 5, "")])
def test_as_many_clients_are_shown_as_asked_for(
    file: Path, program: Any, monkeypatch: pytest.MonkeyPatch, clients: int, rows: int, left: str
) -> None:
    drawn: list[Any] = []

    def figure(holdings: Any, title: str, out: Path) -> list[Path]:
        drawn.append((title, out))
        return [out.with_suffix(".svg")]

    monkeypatch.setattr(holdings_figure, "holdings_figure", figure)
    status, out, err = program("data", "show", file, "--clients", clients, "--seed", 3)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert drawn == [("Samples of each client: iid, seed 3", Path("holdings"))]
    assert [line.split()[0] for line in lines[2 : 2 + rows]] == list(map(str, range(rows)))
    assert lines[2 + rows].startswith(f"{left}5 clients with 20 samples")
    assert lines[-1] == "holdings.svg"


def test_what_was_fetched_is_named(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(data, "fetch", lambda names: asked.append(names) or [Path("[a]/mnist.npz"), Path("b")])
    assert program("data", "fetch", "mnist", "usps") == (0, "[a]/mnist.npz\nb\n", "")
    assert asked == [["mnist", "usps"]]


def test_data_alone_is_the_list(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": "a", "where": Path("x/y"), "samples": 3}, {"name": "b", "where": None, "samples": 4}]
    monkeypatch.setattr(data, "available", lambda: rows)
    status, out, _ = program("data")
    lines = [line.split() for line in out.splitlines()]
    assert (status, lines) == (0, [["name", "where", "samples"], ["a", "x/y", "3"], ["b", "—", "4"]])
    assert program("data", "list")[1] == out
    assert json.loads(program("data", "list", "--json")[1]) == [rows[0] | {"where": "x/y"}, rows[1]]

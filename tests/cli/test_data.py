"""`asyncfl data`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl import data


def test_list_is_the_default_and_has_json(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": "a", "where": Path("x/y"), "samples": 3}, {"name": "b", "where": None, "samples": 4}]
    monkeypatch.setattr(data, "available", lambda: rows)
    status, out, _ = program("data")
    lines = [line.split() for line in out.splitlines()]
    assert (status, lines) == (0, [["name", "where", "samples"], ["a", "x/y", "3"], ["b", "—", "4"]])
    assert program("data", "list")[1] == out
    assert json.loads(program("data", "list", "--json")[1]) == [rows[0] | {"where": "x/y"}, rows[1]]


def test_fetch_prints_the_files(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Any] = []
    monkeypatch.setattr(data, "fetch", lambda names: fetched.append(names) or [Path("[a]/mnist.npz"), Path("b")])
    assert program("data", "fetch", "mnist", "usps") == (0, "[a]/mnist.npz\nb\n", "")
    assert fetched == [["mnist", "usps"]]


@pytest.mark.parametrize(("clients", "rows", "left"), [(4, 4, "the first 4 of "), (6, 5, "")])
def test_show_draws_a_figure_and_prints_a_table(program: Any, file: Path, clients: int, rows: int, left: str) -> None:
    partition = "data.partition={kind: pathological}"
    status, out, err = program("data", "show", file, "--set", partition, "--clients", clients)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "data: stand-in for MNIST: digits drawn from fonts"
    assert lines[1].split() == ["client", "samples", "classes", "skew", "holds", "most", "of"]
    assert [line.split()[:3] for line in lines[2 : 2 + rows]] == [[str(client), "20", "2"] for client in range(rows)]
    assert lines[2 + rows].startswith(f"{left}5 clients with 20 samples (median 20) of 2 of 10 classes; ")
    assert lines[-3:] == ["holdings.svg", "holdings.png", "holdings.pdf"]
    assert all(Path(line).is_file() for line in lines[-3:])


def test_show_prints_the_counts_of_all_clients_as_json(program: Any, file: Path) -> None:
    found = json.loads(program("data", "show", file, "--out", file.parent / "who", "--json", "--seed", 3)[1])
    assert np.array(found["clients"]).sum(1).tolist() == [20] * 5
    assert found["classes"] == [str(number) for number in range(10)]
    assert found["files"] == [f"{file.parent / 'who'}.{kind}" for kind in ("svg", "png", "pdf")]


def test_existing_figures_are_replaced_only_with_force(program: Any, refused: Any, file: Path) -> None:
    Path("who.pdf").write_bytes(b"mine")
    assert "cannot write who.pdf: it exists already" in refused("data", "show", file, "--out", "who")
    assert Path("who.pdf").read_bytes() == b"mine"
    assert program("data", "show", file, "--out", "who", "--force")[0] == 0
    assert Path("who.pdf").read_bytes().startswith(b"%PDF")

"""The card of a run in a notebook."""

import re
from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.results.run_card import run_card
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario


@pytest.fixture(scope="module")
def run() -> Run:
    data = {"dataset": "mnist", "source": "embedded", "clients": 3, "samples_per_client": 20}
    fields: dict[str, Any] = {"data": data, "model": {"kind": "mlp", "hidden": [2]}, "seeds": [4, 7]}
    return simulate(Scenario.read({**fields, "protocol": {"kind": "sync", "rounds": 5}}))


def cells(html: str) -> list[list[str]]:
    return [re.findall(r"<td>(.*?)</td>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", html, re.S)]


def test_a_card_has_the_last_version_of_each_seed_and_the_ends_of_the_tables(run: Run) -> None:
    html = run._repr_html_()
    assert html.startswith("<div><b>sync on mnist</b><div>all versions published</div>")
    first = html.partition("<details>")[0]
    assert [row[:2] for row in cells(first) if row] == [["4", "5"], ["7", "5"]]
    assert "epsilon" not in first, "it is infinite without privacy"
    rounds = html.split("<details>")[1]
    assert rounds.startswith("<summary><code>run.rounds</code>: 12 rows, ")
    assert [row[:2] for row in cells(rounds) if row] == [["7", "3"], ["7", "4"], ["7", "5"]]
    for name in ("events", "clients", "ledger", "spending"):
        assert f"<code>run.{name}</code>: {len(run.tables[name]):,} rows" in html


def test_nothing_of_a_run_becomes_html_of_the_notebook(run: Run) -> None:
    evil = "<script>alert(1)</script>"
    html = run_card(evil, {}, {"seeds": {"0": {"stopped": evil}}, "notes": [evil]})
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3


def test_a_run_is_named_in_a_line(run: Run) -> None:
    assert repr(run).startswith("<Run: sync on mnist; rounds 12, events ")
    assert "\n" not in repr(run)

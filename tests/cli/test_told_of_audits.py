"""How what audits found is told, of rows made by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from asyncfl.cli.audit_canaries import _sentences, _too_few, print_found
from asyncfl.cli.replay import _said
from asyncfl.cli.twins import tell_measured
from asyncfl.server.replay import Replayed

ABOUT = (
    "All are epsilons at delta {} (neighbours: {}). Measured: at least so much, at 95 % confidence for each row; how "
    "many canaries are guessed was fixed beforehand, and the level is shared."
)
FEW = "10 canaries can show nothing at delta 0.4: ask at a smaller delta with --canary-delta, or plant fewer"


def row(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"seed": 0, "adversary": "server", "measured": 1.2345, "most": 5.0, "delta": 1e-5}
    found |= {"measured_gaussian": 0.05, "claimed_epsilon": 1.2345, "exact_epsilon": None, "neighbours": "replace"}
    return found | {"right": 3, "guesses": 4, "score": "loss", "canaries": 10, "held": True, **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"measured": 1.3}, ["server, seed 0: the claim of 1.23 is disproved, it is at least 1.3"]),
        ({"claimed_epsilon": None, "measured": 99.0}, []),
        ({"canaries": 0}, ["server, seed 0: all canaries are of clients that attack; nothing can be measured"]),
        ({"held": False, "most": 0.0}, ["server, seed 0: it holds nothing that could be measured"]),
        ({"most": 0.0, "delta": 0.4}, [FEW]),
        (
            {"claimed_epsilon": math.inf},
            ["server, seed 0: nothing is claimed, the claim is infinite: no noise hides what this adversary holds"],
        ),
        ({"claimed_epsilon": math.inf, "held": False}, ["server, seed 0: it holds nothing that could be measured"]),
    ],
)
def test_what_the_reader_of_a_row_must_know(changes: dict[str, Any], said: list[str]) -> None:
    one = row(**changes)
    assert list(_sentences([one])) == [ABOUT.format(f"{one['delta']:g}", "replace"), *said]


def test_each_delta_is_told_with_its_neighbours() -> None:
    rows = [row(), row(delta=0.5, neighbours="add_remove"), row(seed=1)]
    assert list(_sentences(rows)) == [ABOUT.format("1e-05", "replace"), ABOUT.format("0.5", "add_remove")]


@pytest.mark.parametrize(
    ("canaries", "said"),
    [
        (1, "1 canary can show nothing, at whatever delta: plant more"),
        (4, "4 canaries can show nothing, at whatever delta: plant more"),
        (5, "5 canaries can show nothing at delta 0.4: ask at a smaller delta with --canary-delta, or plant fewer"),
    ],
)
def test_few_canaries_show_nothing_at_95_percent(canaries: int, said: str) -> None:
    assert _too_few(canaries, 0.4) == said


def test_rows_of_canaries_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_found([row(), row(seed=7, adversary="both", measured=math.inf, measured_gaussian=math.nan, guesses=0)])
    lines = capsys.readouterr().out.splitlines()
    table = [re.split(r"  +", line.strip()) for line in lines[:3]]
    assert table[0] == [
        "seed", "adversary", "measured", "could show", "if Gaussian", "claimed", "exact", "right guesses",
    ]  # fmt: skip
    assert table[1:] == [
        ["0", "server", "1.23", "5", "0.05", "1.23", "—", "3 of 4, loss"],
        ["7", "both", "infinite", "5", "—", "1.23", "—", "—"],
    ]
    assert " ".join(" ".join(lines[3:]).split()) == (
        f"{ABOUT.format('1e-05', 'replace')} both, seed 7: the claim of 1.23 is disproved, it is at least inf"
    )


LEDGER = pd.DataFrame(
    {
        "seed": [0, 0, 1, 2],
        "holder": "client",
        "client": [3, 4, 3, 3],
        "adversary": "server",
        "status": "proven",
        "claimed_epsilon": [5.0, 5.0, 6.0, 7.0],
        "provable": [4.0, 4.0, 4.5, 4.75],
        "measured": [0.5, math.nan, 0.25, 0.125],
        "delta": 1e-5,
    }
)


@pytest.mark.parametrize(
    ("seeds", "rows", "rows_are"),
    [((0,), ["0"], "1 row of the ledger is"), ((0, 1), ["0", "1"], "2 rows of the ledger are")],
)
def test_what_twins_measured_is_told_of_the_seeds_that_were_audited(
    seeds: tuple[int, ...], rows: list[str], rows_are: str, capsys: pytest.CaptureFixture[str]
) -> None:
    audited: Any = SimpleNamespace(ledger=LEDGER, summary={"notes": ["audit: of some", "another note"]})
    tell_measured(Path("run"), audited, ["an older audit is replaced"], seeds, False)
    lines = capsys.readouterr().out.splitlines()
    table = [re.split(r"  +", line.strip()) for line in lines[: 1 + len(rows)]]
    assert table[0] == [
        "seed", "holder", "client", "adversary", "sensitivity", "claimed epsilon", "provable", "measured", "delta",
    ]  # fmt: skip
    assert table[1] == ["0", "client", "3", "server", "proven", "5", "4", "0.5", "1e-05"]
    assert [line[0] for line in table[1:]] == rows
    assert lines[1 + len(rows) :] == [
        "audit: of some",
        "an older audit is replaced",
        "measured: epsilon is at least so much, given the models that the clients' tasks",
        "  began from",
        f"run: audit.parquet is written, {rows_are} measured",
    ]
    tell_measured(Path("run"), audited, ["old"], seeds, True)
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["replaced"], [one["seed"] for one in told["rows"]]) == ("run", ["old"], list(seeds))
    assert told["rows"][0] == {
        "seed": 0, "holder": "client", "client": 3, "adversary": "server", "status": "proven", "claimed_epsilon": 5.0,
        "provable": 4.0, "measured": 0.5, "delta": 1e-5,
    }  # fmt: skip


def test_what_a_replay_compared_and_what_not() -> None:
    assert _said("call 3: another") == "first difference in call 3: another"
    same = "all 5 actions in answer to 4 messages are the same as recorded"
    assert _said(Replayed(calls=4, actions=5, unchecked=())) == same
    unchecked = f"{same}; not compared: updates, models (--train compares them)"
    assert _said(Replayed(calls=4, actions=5, unchecked=("updates", "models"))) == unchecked

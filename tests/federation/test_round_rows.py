"""Rows of the table of rounds, most of which are on disk in a long run."""

from typing import Any

import pytest

from asyncfl.federation import release_store, round_recorder
from asyncfl.federation.round_recorder import RoundRows
from asyncfl.federation.run_tables import clients_table, rounds_table, seed_summary
from asyncfl.federation.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

MADE: list[dict[str, Any]] = [
    {"version": 0, "time_s": 0.0, "loss": 0.5, "diverged": False},
    {"version": 1, "time_s": 0.25, "loss": 0.25, "diverged": False, "detector_k": 1.0},
    {"version": 2, "time_s": 1.0, "loss": float("inf"), "diverged": True, "detector_k": 2.0},
    {"version": 3, "time_s": 1, "loss": 0.5, "diverged": True, "detector_k": 0.0},
    {"version": 4, "time_s": 2.0, "loss": 0.125, "diverged": False},
]


def same(one: Any, other: Any) -> bool:
    """Also in the types and the order of columns."""
    return repr(one) == repr(other)


@pytest.mark.parametrize("put_away_at", [1, 2, 1024])
def test_rows_on_disk_are_read_back_unchanged(monkeypatch: pytest.MonkeyPatch, put_away_at: int) -> None:
    monkeypatch.setattr(round_recorder, "PUT_AWAY_AT", put_away_at)
    table = RoundRows()
    assert not table
    for place, row in enumerate(MADE):
        table.append({**row, "loss": None})
        if place:
            # Two rows wait to be completed.
            table[place - 1]["loss"] = MADE[place - 1]["loss"]
            table.completed()
    table[-1]["loss"] = MADE[-1]["loss"]
    table.completed()
    assert len(table) == len(MADE)
    assert same(list(table), MADE)
    assert same([table[place] for place in range(-5, 5)], MADE + MADE)
    assert same(table[1:4], MADE[1:4])
    table[-1]["diverged"] = True
    assert [row["diverged"] for row in table] == [False, False, True, True, True]
    with pytest.raises(IndexError):
        table[5]


def test_a_run_is_the_same_with_records_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario.read(
        {
            "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 12, "source": "embedded"},
            "model": {"kind": "mlp", "hidden": []},
            "protocol": {
                "kind": "buffered",
                "rounds": 6,
                "buffer": 3,
                "dispatch": {"kind": "constant", "in_flight": 4},
            },
            "world": {"tap": {"uplink": True, "downlink": True, "packet_loss": 0.1}},
            "privacy": {"kind": "local_gaussian", "epsilon": 20.0, "clip_norm": 1.0},
            "training": {"gradient_clip": 1.0, "deadline_s": 0.5, "epochs": 2},
            "threats": {"attack": {"kind": "ipm"}, "attackers": 2},
            "defence": {"detector": {"kind": "safl"}},
        }
    )

    def tables() -> list[Any]:
        run = simulate_seed(scenario, 0)
        books = SeedLedger(run)
        made = [
            rounds_table(run),
            clients_table(run),
            books.ledger,
            books.spending,
            books.with_epsilons(rounds_table(run)),
        ]
        return [*(table.to_pydict() for table in made), seed_summary(run)]

    before = tables()
    monkeypatch.setattr(release_store, "PUT_AWAY_AT", 2)
    monkeypatch.setattr(round_recorder, "PUT_AWAY_AT", 2)
    assert same(tables(), before)

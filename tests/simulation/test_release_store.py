"""Records of a run, most of which are on disk in a long one: uploads, published models, rows of rounds."""

import dataclasses
import math
import tracemalloc
from typing import Any

import pytest

from asyncfl.privacy import Contribution, Release
from asyncfl.privacy.release import ModelRelease, Upload
from asyncfl.results.run_tables import clients_table, rounds_table, seed_summary
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import release_store, round_recorder, simulate_seed
from asyncfl.simulation.release_store import ReleaseStore
from asyncfl.simulation.round_recorder import RoundRows

RELEASE = Release("gaussian", 0.5, 2.0, 1, 3.0)


def upload(task: int, client: int = 0, turn: int = 0) -> Upload:
    return Upload(task, 0, Contribution(client, 20, turn), RELEASE, 1.0, 2.5, False, 0.5)


def weighing(one: Upload, weight: float) -> Upload:
    return dataclasses.replace(one, contribution=dataclasses.replace(one.contribution, weight=weight))


BARE = Release("laplace", math.inf, math.inf, 0, math.inf)
ODD = (
    Upload(0, -1, Contribution(-1, 1), BARE, None, None, True, 0.0, copy_of=2, computed_from=(2, 1)),
    Upload(1, 0, Contribution(3, 7, 2, epsilon=math.inf, epochs=0), RELEASE, math.inf, math.inf, False, 1e-300),
    Upload(2, 5, Contribution(0, 1, epsilon=0.1, weight=-0.5), RELEASE, 0.1, None, False, 0.1, computed_from=(0,)),
    upload(3, client=2**40, turn=2**40),
)
"""Uploads with whatever may be missing, is infinite, or large."""


def told(record: ReleaseStore) -> tuple[list[Upload], dict[int, ModelRelease]]:
    return list(record.uploads), dict(record.models)


@pytest.mark.parametrize("put_away_at", [1, 3, 1000])
def test_releases_on_disk_are_read_back_unchanged(monkeypatch: pytest.MonkeyPatch, put_away_at: int) -> None:
    monkeypatch.setattr(release_store, "PUT_AWAY_AT", put_away_at)
    record, uploads, models = ReleaseStore(), dict[int, Upload](), dict[int, ModelRelease]()
    for version in range(1, 6):
        made = [dataclasses.replace(one, task=5 * version + one.task) for one in ODD]
        lost = upload(5 * version + 4)
        record.dropped(lost)
        record.collected(made)
        uploads |= {one.task: one for one in (lost, *made)}
        assert told(record) == (list(uploads.values()), models), "what is still to be published changes nothing"
        model = ModelRelease(version, (weighing(made[3], 0.25), weighing(made[1], 0.0)), [None, 0.5][version % 2], 0.1)
        record.published(model)
        assert record.model(version) == model
        uploads |= {one.task: one for one in model.uploads}
        models[version] = model
        assert told(record) == (list(uploads.values()), models)
    assert record.newest == tuple(made)
    assert [record.upload(task) for task in (5, 12, 29, 30)] == [uploads[5], uploads[12], uploads[29], None]
    assert [record.knows(task) for task in (4, 5, 12, 29, 30)] == [False, True, True, True, False]
    assert record.uploads[-1] == uploads[28]
    assert list(record.uploads[3:5]) == list(uploads.values())[3:5]
    with pytest.raises(KeyError):
        record.models[6]


def test_an_upload_that_is_settled_enters_no_other_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_store, "PUT_AWAY_AT", 1)
    record = ReleaseStore()
    for version in range(3):
        record.collected([upload(version)])
        record.published(ModelRelease(version, (weighing(upload(version), 1.0),), None, 0.0))
    before = told(record)
    with pytest.raises(ValueError, match=r"tasks \[0\] were settled before version 3"):
        record.published(ModelRelease(3, (weighing(upload(0), 0.5),), None, 0.0))
    assert told(record) == before


def test_memory_grows_by_a_few_bytes_for_each_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_store, "PUT_AWAY_AT", 500)
    record, n = ReleaseStore(), 4000

    def publish(first: int) -> None:
        for task in range(first, first + n, 10):
            made = [dataclasses.replace(upload(one), loss=float(one)) for one in range(task, task + 10)]
            record.collected(made)
            record.published(ModelRelease(1 + task // 10, tuple(weighing(one, 0.1) for one in made), 1.0, 0.0))

    publish(0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        publish(n)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 20 * n, f"{grown / n:.0f} bytes for each"
    assert len(record.uploads) == 2 * n


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

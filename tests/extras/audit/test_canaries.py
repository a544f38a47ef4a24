"""Canaries: their scores, the bounds from them, and the rows of the ledger that these enter."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from asyncfl.api import execute
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.client import Assignment, Batch
from asyncfl.data.canaries import Canaries
from asyncfl.extras.audit import canaries
from asyncfl.extras.audit.canaries import (
    FOUND,
    CanaryAudit,
    CanaryScorer,
    audit_canaries,
    enter_bounds,
    held_releases,
    save,
)
from asyncfl.extras.audit.finished_run import FinishedRun, read_attacks, write_attacks
from asyncfl.extras.audit.neighbours.audit_run import audit_neighbours, save_run
from asyncfl.measurements import TwinAudit
from asyncfl.privacy.estimators.one_run import largest_detectable_epsilon
from asyncfl.protocol.messages import Publish
from asyncfl.results.adversaries import AdversaryHoldings
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.simulate import prepared

TAPPED = {"tap": {"uplink": True, "downlink": True}}


def finished(folder: Path, tiny: dict[str, Any], **fields: Any) -> FinishedRun:
    world = tiny["world"] | TAPPED
    training = {"lr": 0.1, "batch_size": 10, "epochs": 5}
    description = {**tiny, "world": world, "training": training, **fields}
    return FinishedRun.load(execute(Scenario.read(description), folder / "run"))


def found(run: FinishedRun, canaries: Canaries, delta: float | None = None) -> pd.DataFrame:
    return audit_canaries(run, canaries, run.seeds(), delta).found.to_pandas().set_index("adversary")


def test_without_noise_most_canaries_are_recognised_in_the_uploads(tmp_path: Path, tiny: dict[str, Any]) -> None:
    rows = found(finished(tmp_path, tiny), Canaries(count=100))
    assert rows.index.tolist() == ["eavesdropper", "server", "both", "public_last", "public"]
    assert rows.loc["server", "measured"] > 1.5
    assert rows.loc["eavesdropper", "measured"] == rows.loc["server", "measured"]
    assert (rows["measured"] <= rows["most"]).all()
    assert rows.loc["public_last", "most"] == pytest.approx(largest_detectable_epsilon(100, 0.0))
    assert rows.loc["server", "most"] == pytest.approx(largest_detectable_epsilon(100, 0.0, 0.05 / 4))
    # Without noise nothing is claimed.
    assert rows["claimed_epsilon"].tolist() == [float("inf")] * 5
    assert (rows["delta"] == 0).all()
    assert rows["measured_gaussian"].isna().all()


@pytest.mark.parametrize(
    ("privacy", "training"),
    [
        ({"kind": "dp_sgd", "noise_multiplier": 1.0}, {"example_clip": 1.0, "example_noise": 1.0}),
        ({"kind": "dp_fedavg", "noise_multiplier": 2.0, "clip_norm": 0.5}, {}),
    ],
)
def test_schemes_with_a_proof_are_measured_below_what_is_proven(
    tmp_path: Path, tiny: dict[str, Any], privacy: dict[str, Any], training: dict[str, Any]
) -> None:
    rows = found(
        finished(tmp_path, tiny, privacy=privacy, training={"lr": 0.1, "batch_size": 10} | training),
        Canaries(count=100),
    )
    assert (rows["measured"] <= rows["exact_epsilon"]).all()
    assert (rows["measured_gaussian"] <= rows["exact_epsilon"]).all()
    assert (rows["delta"] == 1e-5).all()


def test_canary_clients_are_recognised(tmp_path: Path, tiny: dict[str, Any]) -> None:
    many = tiny["data"] | {"clients": 40, "samples_per_client": 5}
    run = finished(tmp_path, tiny, data=many)
    rows = found(run, Canaries(count=40, unit="client"))
    assert rows.loc["server", "measured"] > 1
    assert (rows["neighbours"] == "one client's updates zeroed").all()


def test_the_same_audit_writes_the_same_bytes_and_keeps_other_methods(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = finished(tmp_path, tiny)
    other = audit_canaries(run, Canaries(count=20), (0,)).found.set_column(1, "method", [["twins"] * 5])
    write_attacks(run.folder, other)
    folder = save(run, audit_canaries(run, Canaries(count=20), run.seeds()))
    first = [(folder / name).read_bytes() for name in ("scenario.yaml", "scores.parquet", "../attacks.parquet")]
    assert save(run, audit_canaries(run, Canaries(count=20), run.seeds())) == folder
    assert first == [(folder / name).read_bytes() for name in ("scenario.yaml", "scores.parquet", "../attacks.parquet")]
    written = read_attacks(run.folder)
    assert written is not None
    assert written["method"].to_pylist() == ["canaries"] * 5 + ["twins"] * 5
    scores = pd.read_parquet(folder / "scores.parquet")
    assert len(scores) == 20
    assert Scenario.load(folder / "scenario.yaml").digest() == folder.name.removeprefix("canaries-")
    assert FinishedRun.load(run.folder).run.scenario.data.canaries is None


def test_a_run_that_contains_canaries_is_audited_without_new_ones(tmp_path: Path, tiny: dict[str, Any]) -> None:
    planted = {"count": 60, "unit": "sample", "kind": "noise"}
    run = finished(tmp_path, tiny, data=tiny["data"] | {"canaries": planted})
    assert found(run, Canaries.model_validate(planted)).loc["server", "canaries"] == 60
    with pytest.raises(ScenarioError, match="must be 60 samples of kind noise, which the run contains already"):
        found(run, Canaries(count=61))


def test_divergence_with_canaries_is_an_error(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = finished(tmp_path, tiny, training={"lr": 0.05, "batch_size": 10})
    broken = run.run.scenario.override({"training.lr": 1e30})
    run.run.scenario = broken
    with pytest.raises(RunError, match="with canaries seed 0 diverges"):
        audit_canaries(run, Canaries(count=10), (0,))


@pytest.fixture
def federation(scenario: Scenario) -> Federation:
    return prepared(scenario.override({"data.canaries": {"count": 20}}), 0)


def versions(*held: int) -> AdversaryHoldings:
    return AdversaryHoldings({}, dict.fromkeys(held, 0.0))


def publish(scorer: CanaryScorer, version: int, model: np.ndarray) -> None:
    scorer.published(0.0, Publish(version, model), Traffic())


def collected(federation: Federation, client: int, update: np.ndarray, sound: bool = True) -> Batch:
    base = federation.plan.initial
    batch = Batch([Assignment(7, client, 0, base)], (base + update)[None], 0)
    batch.sound[:] = sound
    return batch


def test_an_update_along_the_difference_of_gradients_scores_its_norm(federation: Federation) -> None:
    scorer = CanaryScorer()
    scorer.begin_seed(federation)
    planted, learner, base = federation.data.canaries, federation.learner, federation.plan.initial
    assert planted is not None
    chosen = int(np.flatnonzero(planted.owners == 3)[0])
    part = slice(chosen, chosen + 1)
    towards = learner.gradient(base, planted.images[part], planted.labels[part])
    away = learner.gradient(base, planted.replaced_images[part], planted.replaced_labels[part])
    scorer.collected(collected(federation, 3, -(towards - away) / 1000))
    scores = scorer.scores(AdversaryHoldings({7: 0.0}, {}))
    score = scores["updates"]
    # For so small a step the fall of the loss is close to its slope.
    np.testing.assert_allclose(scores["uploads"], score, rtol=0.1, atol=0.02 * np.nanmax(np.abs(score)))
    assert int(np.nanargmax(score)) == chosen
    assert score[chosen] == pytest.approx(float(((towards - away) ** 2).sum()) / 1000, rel=1e-3)
    # Clients without an upload have no score.
    assert np.isnan(score[planted.owners != 3]).all()
    assert not np.isnan(score[planted.owners == 3]).any()


def test_a_model_trained_on_the_canary_scores_the_fall_of_its_loss(federation: Federation) -> None:
    scorer = CanaryScorer()
    scorer.begin_seed(federation)
    planted, learner, base = federation.data.canaries, federation.learner, federation.plan.initial
    assert planted is not None
    gradient = learner.gradient(base, planted.images[:1], planted.labels[:1])
    publish(scorer, 1, base)
    publish(scorer, 2, base - gradient / 10)
    found = scorer.scores(versions(1, 2))
    before = learner.losses(base, planted.replaced_images[:1], planted.replaced_labels[:1])
    after = learner.losses(base - gradient / 10, planted.replaced_images[:1], planted.replaced_labels[:1])
    own = learner.losses(base, planted.images[:1], planted.labels[:1])
    own -= learner.losses(base - gradient / 10, planted.images[:1], planted.labels[:1])
    assert own[0] > 0
    assert found["last model"][0] == pytest.approx(float(own[0] + after[0] - before[0]), rel=1e-6)
    assert found["models"] == pytest.approx(found["last model"] / 2)
    assert set(scorer.scores(versions(1))) == {"last model"}
    assert scorer.scores(AdversaryHoldings({}, {})) == {}


def test_long_runs_are_scored_at_evenly_spaced_versions_and_the_last(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = prepared(scenario.override({"data.canaries": {"count": 20}, "protocol.rounds": 7}), 0)
    monkeypatch.setattr(canaries, "MOST_VERSIONS", 3)
    scorer = CanaryScorer()
    scorer.begin_seed(federation)
    base = federation.plan.initial
    for version in range(1, 6):
        publish(scorer, version, base * version)
    scores = {version: scorer.scores(versions(version)) for version in range(1, 6)}
    assert {version for version, found in scores.items() if found} == {2, 4, 5}
    assert scorer.scores(versions(1, 2, 3))["last model"].tolist() == scores[2]["last model"].tolist()
    # A model that is not finite has no score.
    publish(scorer, 6, base * np.nan)
    assert np.isnan(scorer.scores(versions(6))["last model"]).all()
    assert scorer.scores(versions(5))["last model"].tolist() == scores[5]["last model"].tolist()


# An upload of 25 kB is 17 packets, all of which the eavesdropper must catch: 0.95^17 = 0.42.
@pytest.mark.parametrize(("packet_loss", "uploads"), [(0.0, range(30, 31)), (0.05, range(1, 30)), (1.0, range(1))])
def test_adversaries_hold_what_they_received(scenario: Scenario, packet_loss: float, uploads: range) -> None:
    tap = {"uplink": True, "downlink": True, "packet_loss": packet_loss}
    run = simulate_seed(scenario.override({"world.tap": tap, "protocol.rounds": 6}), 0)
    held = held_releases(run)
    heard, server, both = held["eavesdropper"], held["server"], held["both"]
    assert len(server.uploads) == 6 * 5, "the server receives an upload of each of five clients in each round"
    assert heard.uploads.keys() <= server.uploads.keys()
    assert both.uploads.keys() == heard.uploads.keys() | server.uploads.keys()
    assert set(server.models) == set(both.models) == set(held["public"].models) == {0, 1, 2, 3, 4, 5, 6}
    assert set(held["public_last"].models) == {6}
    assert held["public"].uploads == held["public_last"].uploads == {}
    assert len(heard.uploads) in uploads
    assert set(heard.models) <= {0, 1, 2, 3, 4, 5}, "the last version is sent to no client"


NOISED = {"privacy": {"kind": "local_gaussian", "epsilon": 50, "clip_norm": 0.5}}


@pytest.fixture
def noised(tmp_path: Path, tiny: dict[str, Any]) -> FinishedRun:
    training = {"lr": 0.1, "batch_size": 10, "epochs": 5, "gradient_clip": 0.5}
    return FinishedRun.load(execute(Scenario.read({**tiny, "training": training, **NOISED}), tmp_path / "run"))


def audit_of(scenario: Scenario, owners: tuple[int, ...] = (0, 1), **fields: Any) -> CanaryAudit:
    one = dict.fromkeys(FOUND.names) | {
        "seed": 0,
        "adversary": "server",
        "unit": "sample",
        "delta": 1e-5,
        "measured": 2.5,
        "most": 4.0,
        "held": 2,
    }
    table = pa.Table.from_pylist([one | fields], schema=FOUND)
    scores = pa.table({"seed": [0] * len(owners), "client": list(owners)})
    return CanaryAudit(scenario, table, scores)


def measured(ledger: pa.Table) -> list[tuple[str, int, str, float]]:
    names = ("holder", "client", "adversary", "measured_by_canaries")
    rows = ledger.filter(pc.is_valid(ledger["measured_by_canaries"])).select(names).to_pylist()
    return [tuple(row.values()) for row in rows]


def test_the_bound_is_entered_for_the_canary_client_with_the_largest_epsilon(noised: FinishedRun) -> None:
    run = noised.run
    server = run.ledger[(run.ledger["adversary"] == "server") & (run.ledger["holder"] == "client")]
    owners = tuple(server.nsmallest(2, "provable", keep="first")["client"])
    worst = max(owners, key=lambda client: (server.set_index("client").loc[client, "provable"], -client))
    assert enter_bounds(run, audit_of(run.scenario, owners)) == 2
    assert measured(run.tables["ledger"]) == [("client", worst, "server", 2.5), ("model", -1, "server", 2.5)]


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, 2),
        ({"delta": 1e-3}, 2),
        ({"delta": 1e-6}, 0),
        ({"unit": "client"}, 0),
        ({"held": 0, "most": 0.0, "measured": 0.0}, 0),
        ({"most": 0.0, "measured": 0.0}, 0),
        ({"measured": 0.0}, 2),
    ],
)
def test_a_bound_is_entered_only_where_it_holds(noised: FinishedRun, fields: dict[str, Any], rows: int) -> None:
    assert enter_bounds(noised.run, audit_of(noised.run.scenario, **fields)) == rows
    assert len(measured(noised.run.tables["ledger"])) == rows


def test_sample_canaries_bound_no_zero_out_row(tmp_path: Path, tiny: dict[str, Any]) -> None:
    privacy = {"kind": "dp_fedavg", "noise_multiplier": 2.0, "clip_norm": 0.5}
    for neighbours, of_samples in (("zero_out", 0), ("replace", 2)):
        scenario = Scenario.read({**tiny, "privacy": {**privacy, "neighbours": neighbours}})
        run = FinishedRun.load(execute(scenario, tmp_path / neighbours)).run
        assert enter_bounds(run, audit_of(scenario)) == of_samples
        assert enter_bounds(run, audit_of(scenario, unit="client")) == 2


def test_bounds_of_both_audits_are_kept_side_by_side(noised: FinishedRun) -> None:
    save_run(noised, audit_neighbours(noised, TwinAudit(clients=1, neighbours=("brightest",), twins=4), (0,)))
    by_twins = FinishedRun.load(noised.folder).run.tables["ledger"]
    found = audit_canaries(noised, Canaries(count=100), (0,))
    save(noised, found)
    enter_bounds(noised.run, found)
    save_run(noised, noised.run)

    again = FinishedRun.load(noised.folder)
    ledger = again.run.ledger
    assert (noised.folder / "audit" / "attacks.parquet").exists()
    assert measured(again.run.tables["ledger"]) != []
    assert ledger["measured_by_twins"].equals(by_twins.to_pandas()["measured_by_twins"])
    largest = ledger[["measured_by_twins", "measured_by_canaries"]].max(axis=1)
    assert largest.equals(ledger["measured"].rename(None))
    assert any("measured by twins at least" in sentence for sentence in again.run.summary["privacy"])
    # Another audit with neighbours keeps the bounds of the canaries.
    once_more = audit_neighbours(again, TwinAudit(clients=1, neighbours=("brightest",), twins=4), (0,))
    assert once_more.tables["ledger"].equals(again.run.tables["ledger"])
    assert not math.isnan(once_more.ledger["measured_by_canaries"].max())

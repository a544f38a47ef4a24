"""A world is simulated, fitted to what it left behind, and compared with what it was."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import RunError
from asyncfl.experiments.timeline import summary, timeline_of
from asyncfl.extras.calibration import calibrate
from asyncfl.extras.calibration.dropouts import fit_dropout
from asyncfl.extras.calibration.fit import Calibration
from asyncfl.extras.calibration.observations import ObservedRun
from asyncfl.extras.calibration.report import fit_table
from asyncfl.extras.calibration.shared_link import fit_shared_link
from asyncfl.results.run_tables import clients_table, rounds_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.simulation.prepare import streams_of
from asyncfl.world.availability import AlternatingAvailability
from asyncfl.world.distributions import Exponential, Fixed, Lognormal
from tests.extras.calibration.conftest import fitted_to, seen

FIXED = {"device": {"kind": "fixed", "s_per_sample": 0.01}}


def test_speeds_and_task_jitter_are_recovered(found: Calibration, known: Scenario) -> None:
    truth = known.world.start(20, streams_of(known, 0)).s_per_sample * math.exp(0.1**2 / 2)
    assert found.speeds.unseen == ()
    np.testing.assert_allclose(found.speeds.s_per_sample, truth, rtol=0.06)
    jitter = found.speeds.jitter.distribution
    assert isinstance(jitter, Lognormal)
    assert jitter.sigma == pytest.approx(0.1, rel=0.08)
    assert jitter.expected() == pytest.approx(1.0)
    assert found.speeds.jitter.gap < 0.03
    assert isinstance(found.speeds.population.distribution, Lognormal)


def test_links_without_jitter_are_recovered_exactly(found: Calibration) -> None:
    links = found.downlink
    np.testing.assert_allclose(links.latency_s, 0.05, rtol=2e-4)
    np.testing.assert_allclose(links.bandwidth_bps, 5e6, rtol=2e-4)
    assert links.jitter.distribution == Fixed(value=0.0)


def test_links_with_jitter_are_recovered_approximately(found: Calibration, known: Scenario) -> None:
    links, truth = found.uplink, known.world.start(20, streams_of(known, 0)).uplink
    np.testing.assert_allclose(links.bandwidth_bps, truth.bandwidth_bps, rtol=0.03)
    assert np.median(np.abs(links.latency_s / truth.latency_s - 1)) < 0.03
    jitter = links.jitter.distribution
    assert isinstance(jitter, Exponential)
    assert jitter.mean == pytest.approx(0.02, rel=0.1)
    assert found.world().uplink.loss == known.world.uplink.loss, "as in the scenario"


def test_availability_and_aggregation_time_are_recovered(found: Calibration) -> None:
    availability = found.presence.availability
    assert isinstance(availability, AlternatingAvailability)
    assert availability.on_s.expected() == pytest.approx(60, rel=0.2)
    assert availability.off_s.expected() == pytest.approx(20, rel=0.2)
    assert found.dropout.probability == pytest.approx(0.03, rel=0.3)
    assert found.dropout.per_s == 0
    assert np.median(found.aggregate_s) == pytest.approx(0.3)


def _clock(scenario: Scenario) -> dict[str, Any]:
    runs = [simulate_clock(scenario, seed) for seed in range(2)]
    summaries = [
        summary(
            timeline_of(run.seed, run.stopped, rounds_table(run), run.events, run.tasks, clients_table(run), run.fates)
        )
        for run in runs
    ]
    return {
        "round_s": np.mean([one["round_s"]["mean"] for one in summaries]),
        "staleness": np.mean([one["staleness"]["mean"] for one in summaries]),
    }


@pytest.mark.parametrize(
    "change",
    [
        {"protocol.rounds": 100},
        {"protocol.rounds": 100, "protocol.buffer": 10, "protocol.dispatch.in_flight": 16},
        {"protocol": {"kind": "sync", "rounds": 60}},
    ],
)
def test_the_fitted_world_predicts_its_federation_and_changes_to_it(
    found: Calibration, known: Scenario, change: dict[str, Any]
) -> None:
    # The clients are those of the run: drawn with its seed, whatever the seed of the prediction.
    truth = known.override({**change, "seeding.clock": 0})
    predicted = truth.override({"world": found.world().model_dump(mode="json")})
    was, is_predicted = _clock(truth), _clock(predicted)
    assert is_predicted["round_s"] == pytest.approx(was["round_s"], rel=0.06)
    assert is_predicted["staleness"] == pytest.approx(was["staleness"], rel=0.06, abs=0.01)


def test_a_fitted_population_has_distributions_in_place_of_lists(found: Calibration) -> None:
    world = found.world(population=True)
    assert world.device.kind == "lognormal"  # type: ignore[attr-defined]
    assert isinstance(world.uplink.bandwidth_bps, Lognormal)
    assert world.uplink.bandwidth_bps.median == pytest.approx(1e6, rel=0.25)
    assert world.downlink.latency_s.expected() == pytest.approx(0.05, rel=1e-3)


def _lossless(known: Scenario, **more: Any) -> Scenario:
    world = {"device": {"kind": "fixed", "s_per_sample": 0.01}, "uplink": {"latency_s": 0.1, "bandwidth_bps": 1e6}}
    return known.override({"world": world, "protocol.rounds": 20, **more})


def test_a_second_run_with_a_larger_model_separates_latency_from_bandwidth(known: Scenario) -> None:
    small, large = _lossless(known), _lossless(known, model={"kind": "mlp", "hidden": [64]})
    found = calibrate([seen(small), seen(large)])
    assert found.uplink.separable == 20
    np.testing.assert_allclose(found.uplink.latency_s, 0.1, rtol=1e-6)
    np.testing.assert_allclose(found.uplink.bandwidth_bps, 1e6, rtol=1e-6)
    assert (found.downlink.latency_s == 0).all()


def test_a_client_that_never_trained_gets_the_median_speed(known: Scenario) -> None:
    run = seen(known.override({"protocol": {"kind": "sync", "rounds": 2, "participants": 6}}))
    found = calibrate([run])
    assert found.speeds.unseen
    rest = np.delete(found.speeds.s_per_sample, found.speeds.unseen)
    assert found.speeds.s_per_sample[found.speeds.unseen[0]] == np.median(rest)
    assert any("was observed to its end" in note for note in found.notes())


def test_runs_of_different_populations_are_refused(known: Scenario, found: Calibration) -> None:
    other = known.override({"data.clients": 15})
    with pytest.raises(RunError, match=r"must be of the same clients, got 20 \(run\) and 15 \(run\)"):
        calibrate([seen(known), seen(other)])


def test_trainings_stopped_at_a_deadline_count_as_longer(known: Scenario) -> None:
    changes = {"training.epochs": 3, "protocol.rounds": 60}
    whole = fitted_to(known.override(changes))
    seconds = whole.speeds.s_per_sample * known.data.samples_per_client * 3
    stopped = fitted_to(known.override({**changes, "training.deadline_s": float(np.quantile(seconds, 0.9))}))
    kept = [client for client in range(20) if client not in stopped.speeds.unseen]
    assert 10 < len(kept) < 20
    np.testing.assert_allclose(stopped.speeds.s_per_sample[kept], whole.speeds.s_per_sample[kept], rtol=0.2)


def test_the_servers_bandwidth_is_recovered_from_messages_that_share_it(known: Scenario) -> None:
    uplink = {"latency_s": 0.05, "server_bandwidth_bps": 2e6, "jitter_s": {"kind": "exponential", "mean": 0.05}}
    run = seen(known.override({"world": {**FIXED, "uplink": uplink}, "protocol.rounds": 40}))
    assert fit_shared_link(20, [run], "up").server_bps == pytest.approx(2e6, rel=0.02)
    assert fit_shared_link(20, [run], "down").server_bps == math.inf


def test_a_link_that_is_never_crowded_is_not_shared(known: Scenario) -> None:
    one = {"protocol.dispatch.in_flight": 1, "protocol.buffer": 1, "protocol.rounds": 40}
    run = seen(known.override({"world": {**FIXED, "uplink": {"bandwidth_bps": 1e6}}, **one}))
    assert fit_shared_link(20, [run], "up").server_bps == math.inf


@pytest.mark.parametrize(("probability", "per_s"), [(0.25, 0.0), (0.0, 0.15), (0.2, 0.1)])
def test_both_kinds_of_dropout_are_recovered_and_told_apart(known: Scenario, probability: float, per_s: float) -> None:
    world = {**FIXED, "uplink": {"latency_s": 2.0}, "dropout": probability, "dropout_per_s": per_s}
    found = fit_dropout([seen(known.override({"world": world}))], np.full(20, 0.01))
    assert found.probability == pytest.approx(probability, abs=0.03)
    assert found.per_s == pytest.approx(per_s, abs=0.02)


def test_too_few_trainings_are_refused(known: Scenario) -> None:
    run = simulate_clock(known.override({"protocol": {"kind": "sync", "rounds": 1, "participants": 3}}), 0)
    with pytest.raises(RunError, match=r"must have at least 10 finished trainings, got \d; give a longer run"):
        ObservedRun.of("a run", known, run.sizes, run.events, run.tasks)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_turnaround_between_two_clients_is_recovered_exactly(known: Scenario, workers: int) -> None:
    """Also where several clients start at once: at the beginning, and when no client waits."""
    world = {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.5},
        "workers": workers,
        "turnaround_s": 0.25,
    }
    changes = {"world": world, "protocol.rounds": 20, "protocol.dispatch.in_flight": 2 * workers + 3}
    found = fitted_to(known.override(changes)).worker_slots
    assert (found.workers, found.turnaround_s) == (workers, pytest.approx(0.25))


def test_shared_machines_have_rows_where_sharing_was_found(found: Calibration) -> None:
    def rows(**seen: object) -> dict[str, list[str]]:
        columns, lines = fit_table(replace(found, **seen))  # type: ignore[arg-type]
        assert columns == ["part", "fitted", "from", "gap"]
        return {line[0]: line[1:] for line in lines}

    trainings = f"{found.speeds.trainings} trainings"
    alone = rows(processors=None, evaluate_s=0.0, aggregate_s=np.empty(0))
    assert alone["processors"] == ["one for each client and the server", trainings, "–"]
    assert not {"server, a buffer", "server, an evaluation"} & alone.keys()
    shared = rows(processors=2.5, evaluate_s=0.75, aggregate_s=np.array([0.25, 0.5, 0.75]))
    assert shared["processors"] == ["2.5, shared by clients and server", trainings, "–"]
    assert shared["server, a buffer"] == ["500 ms", "3 versions", "–"]
    assert shared["server, an evaluation"] == ["750 ms", trainings, "–"]

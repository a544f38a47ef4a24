"""Malformed and huge updates in whole seeds."""

from typing import Any

import pytest

from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind
from asyncfl.results.run_tables import seed_summary
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

FEDASYNC = {"kind": "fedasync", "rounds": 6, "in_flight": 3}
STRUCK = {"strikes": {"threshold": 1}}


@pytest.mark.parametrize("protocol", [FEDASYNC, {"kind": "sync", "rounds": 3}], ids=["fedasync", "sync"])
def test_a_federation_of_attackers_alone_ends_with_its_reason(scenario: Scenario, protocol: dict[str, Any]) -> None:
    def stopped(kind: str, defence: dict[str, Any]) -> tuple[str, bool]:
        threats = {"attack": {"kind": kind}, "attackers": 5}
        run = simulate_seed(scenario.override({"protocol": protocol, "threats": threats, "defence": defence}), 0)
        assert sum(run.fates.values()) == run.fates["rejected"] + run.fates["banned"] + run.fates["unfinished"]
        assert [row["version"] for row in run.rounds] == [0]
        return run.stopped, bool(seed_summary(run)["diverged"])

    assert stopped("wrong_length", STRUCK) == stopped("non_finite", STRUCK) == ("every client is banned", False)
    reason, diverged = stopped("wrong_length", {})
    assert reason.startswith("no update could be used: the last ")
    assert not diverged
    reason, diverged = stopped("non_finite", {})
    assert reason.startswith("diverged: the last ")
    assert diverged


def test_a_non_finite_honest_update_is_sent_as_noise_with_proven_clipping(scenario: Scenario) -> None:
    clipped = {"privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.1}, "training.lr": 1e30}
    run = simulate_seed(scenario.override(clipped), 0)
    assert run.stopped == "all versions published"
    zeroed, rejected = (select(run.events, kinds=[kind]) for kind in (Kind.ZEROED, Kind.REJECTED))
    assert len(zeroed) > 0 == len(rejected)
    assert set(zeroed["task"].to_pylist()) <= {upload.task for upload in run.uploads}
    assert set(zeroed["detail"].to_pylist()) == {"not finite, sent as zero with the noise"}
    bare = simulate_seed(scenario.override({**clipped, "privacy": {"kind": "none"}}), 0)
    assert len(select(bare.events, kinds=[Kind.ZEROED])) == 0 < len(select(bare.events, kinds=[Kind.REJECTED]))


RULES: list[dict[str, Any]] = [
    {"kind": "krum", "byzantine": 2},
    {"kind": "multi_krum", "byzantine": 2},
    {"kind": "bulyan", "byzantine": 2},
    {"kind": "geometric_median"},
    {"kind": "median"},
    {"kind": "trimmed_mean", "byzantine": 2},
    {"kind": "norm_clipping"},
    {"kind": "flame"},
    {"kind": "centred_clipping"},
    {"kind": "fltrust"},
    {"kind": "basgd", "buffers": 11, "rule": {"kind": "geometric_median"}},
    {"kind": "krum", "pre": [{"kind": "nearest_neighbours", "byzantine": 2}]},
    {"kind": "trimmed_mean", "byzantine": 2, "pre": [{"kind": "clipping"}]},
    {"kind": "signguard"},
]
DETECTORS: list[dict[str, Any]] = [
    {"kind": kind} for kind in ("evidence", "async_filter", "kardam", "zeno++", "aflguard", "safl")
]


CASES = [({"rule": rule}, 1e19) for rule in RULES] + [({"detector": detector}, 1e19) for detector in DETECTORS]
CASES += [({"rule": {"kind": kind}}, std) for kind in ("multi_krum", "geometric_median") for std in (1e10, 3e37)]


@pytest.mark.parametrize(("defence", "std"), CASES, ids=str)
def test_attackers_of_any_size_neither_end_a_run_nor_move_its_model_far(
    scenario: Scenario, defence: dict[str, Any], std: float
) -> None:
    described = {
        "data": {**scenario.data.model_dump(mode="json"), "clients": 11},
        "threats": {"attack": {"kind": "gaussian", "std": std}, "attackers": 2},
        "defence": {**defence, "root_samples": 20},
    }
    run = simulate_seed(scenario.override(described), 0)
    # What cannot be judged is let in, or (AsyncFilter) whatever is not the farthest.
    accepts_unjudged = defence.get("detector", {}).get("kind") in ("kardam", "safl", "async_filter")
    assert run.stopped == "all versions published" or (accepts_unjudged and run.stopped.startswith("diverged"))
    if not accepts_unjudged:
        assert run.rounds[-1]["test_loss"] < 10

"""Attackers that upload huge finite values: nothing overflows in the server."""

from typing import Any

import pytest

from asyncfl.scenario import Scenario
from asyncfl.simulation.run import simulate_seed

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
]
DETECTORS: list[dict[str, Any]] = [
    {"kind": kind} for kind in ("spectral", "async_filter", "kardam", "zeno++", "aflguard", "safl")
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

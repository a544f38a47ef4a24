"""Live runs decided again, their updates trained once more."""

from collections.abc import Callable
from pathlib import Path

import pytest

from asyncfl.api import gather, run_of
from asyncfl.base.errors import RunError
from asyncfl.results.storage import LIVE
from asyncfl.scenario import Scenario
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.testing import replay_run
from tests.extras.live.conftest import SMALL
from tests.extras.live.test_identity import WORLD
from tests.extras.live.test_personal import BUFFERED, LEAVING_WORLD

VANISHING = {**LEAVING_WORLD, "uplink": {**WORLD["uplink"], "bandwidth_bps": 1e4}}
"""Clients go offline in mid-upload, too."""


@pytest.mark.parametrize("error_feedback", [False, True])
def test_a_replay_retrains_updates_unless_clients_remember_compression_errors(
    live: Callable[[Scenario], SeedRun], tmp_path: Path, error_feedback: bool
) -> None:
    scenario = Scenario.read(
        {
            **SMALL,
            "protocol": BUFFERED,
            "world": VANISHING,
            "compression": {"kind": "top_k", "share": 0.1, "error_feedback": error_feedback},
            "evaluation": {"record": "digests"},
        }
    )
    folder = gather(scenario, [run_of(scenario, live(scenario))]).save(tmp_path / "run", holds=LIVE)
    if error_feedback:
        why = "tasks whose updates were not collected, and the compression error of these"
        with pytest.raises(RunError, match=why):
            replay_run(folder, train=True)
        assert replay_run(folder).unchecked == ("models of versions above 0",)
    else:
        assert replay_run(folder, train=True).unchecked == ()

"""Notes of rules and statistics of detectors in the summary and the table of rounds."""

import re
from typing import Any

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.defences import Buffer, Detector, Verdict, accept_all
from asyncfl.federation import rounds_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

LOSSY = {"loss": {"kind": "independent", "probability": 0.3}, "retransmissions": 0, "mtu_bytes": 10**6}


class Telling(Detector):
    """Has one statistic for each buffer, and another for those of odd versions."""

    kind: str = "telling"

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> tuple[Verdict, Any]:
        notes = {"size": len(buffer)} | ({"odd": 1.0} if buffer.version % 2 else {})
        everything = accept_all(buffer)
        return Verdict(everything.flagged, everything.strikes, notes=notes), state


def test_a_rule_that_is_lowered_for_short_buffers_says_so_with_the_number_of_versions(scenario: Scenario) -> None:
    changes = {"defence.rule": {"kind": "krum", "byzantine": 2}, "world.uplink": LOSSY, "protocol.rounds": 6}
    run = simulate(scenario.override({**changes, "seeds": 2}))
    rounds = run.rounds[run.rounds["version"] > 0]
    expected = {
        f"Krum: byzantine 2 lowered to {max(0, n - 3)} for a buffer of {n} (in {times} of {len(rounds)} versions)"
        for n, times in rounds["participants"].value_counts().items()
        if n < 5
    }
    assert expected
    assert expected == {note for note in run.summary["notes"] if "lowered" in note}
    for seed, summary in run.summary["seeds"].items():
        short = (rounds[rounds["seed"] == int(seed)]["participants"] < 5).sum()
        assert sum(summary["noted"].values()) == short
        assert all(re.search("byzantine 2 lowered", note) for note in summary["noted"])


def test_the_numbers_of_a_detector_are_columns_of_the_table_of_rounds(scenario: Scenario) -> None:
    judged = scenario.override({"defence.detector": {"kind": f"{__name__}:Telling"}})
    table = rounds_table(simulate_seed(judged, 0))
    assert table.column_names[-2:] == ["detector_odd", "detector_size"]
    assert table["detector_size"].to_pylist() == pytest.approx([np.nan, 5, 5, 5], nan_ok=True)
    assert table["detector_odd"].to_pylist() == pytest.approx([np.nan, np.nan, 1, np.nan], nan_ok=True)

"""The table of a fit: descriptions of distributions and losses, and its rows."""

from dataclasses import replace

import numpy as np

from asyncfl.calibration.fit import Calibration
from asyncfl.calibration.report import fit_table


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

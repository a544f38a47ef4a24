"""CSV files of rounds: what is read, and what is refused in words."""

from pathlib import Path

import pytest

from asyncfl.base.errors import DataError
from asyncfl.extras.calibration.round_log import RoundLog, read_round_logs
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock

LOG = """run, time_s, updates, task_s, note, updates_0_3
1, 10.0, 4, 0.5, start-up, 0
1, 12.0, 4, 0.6, , 1
1, 15.0, 6, 0.7, , 2
1, 16.0, 8, 0.8, , 3
2, 20.0, 4, 0.5, , 0
2, 21.0, 5, 0.5, , 1
2, 23.0, 6, 0.5, , 2
2, 26.0, 7, 0.5, , 3
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "rounds.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_runs_of_a_file_are_told_apart_and_start_up_is_left_out(tmp_path: Path) -> None:
    first, second = read_round_logs(written(tmp_path, LOG), clients=10, skip=1)
    found = {name: values.tolist() for name, values in first.quantities(1).items()}
    assert found == {
        "seconds per round": [2.0, 3.0, 1.0],
        "updates per round": [4.0, 6.0, 8.0],
        "seconds per task": [0.6, 0.7, 0.8],
        "updates of clients 0 to 3": [1.0, 2.0, 3.0],
    }
    assert second.quantities(2)["seconds per round"].tolist() == [2.0, 3.0]


def test_times_and_updates_are_enough(tmp_path: Path) -> None:
    (log,) = read_round_logs(written(tmp_path, "time_s,updates\n1,2\n2,2\n3,2\n5,2\n"), clients=2, skip=1)
    assert log.task_s is None
    assert list(log.quantities(1)) == ["seconds per round", "updates per round"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("time_s", "seconds"), r"header: must have a column time_s"),
        (("16.0, 8", "16.0, many"), r"line 5, column updates: must be a number >= 0, got 'many'"),
        (("15.0", "12.0"), r"row 3, column time_s: must be later than in the row before, got 12 after 12"),
        (("2, 20.0", "0, 20.0"), r"run: must not fall"),
        (("2, 26.0, 7, 0.5, , 3\n", ""), r"rounds: must be at least 4 in run 2, of which 1 are left out, got 3"),
        (("updates_0_3", "updates_3_12"), r"column updates_3_12: must name clients 0\.\.9 in ascending order"),
        (("note", "updates_2_5"), r"updates_2_5"),
    ],
)
def test_a_broken_log_is_refused_in_words(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_round_logs(written(tmp_path, LOG.replace(*change)), clients=10, skip=1)


def test_groups_may_not_overlap(tmp_path: Path) -> None:
    text = "time_s,updates,updates_0_4,updates_4_9\n1,2,1,1\n2,2,1,1\n3,2,1,1\n4,2,1,1\n"
    with pytest.raises(DataError, match="column updates_4_9: must share no client with another column"):
        read_round_logs(written(tmp_path, text), clients=10, skip=1)


def test_the_log_of_a_simulated_run_agrees_with_its_tables(known: Scenario) -> None:
    run = simulate_clock(known.override({"protocol.rounds": 30}), 0)
    log = RoundLog.of_run(run, ((0, 4),))
    assert log.time_s.tolist() == [row["time_s"] for row in run.rounds][1:]
    assert log.updates.tolist() == [row["participants"] for row in run.rounds][1:]
    used = [row for row in run.tasks.to_pylist() if row["fate"] == "aggregated"]
    assert log.of_groups[0, 4].sum() == sum(row["client"] <= 4 for row in used)
    assert log.task_s is not None
    seconds = sum(row["trained_s"] - row["dispatched_s"] for row in used)
    assert (log.task_s * log.updates).sum() == pytest.approx(seconds)

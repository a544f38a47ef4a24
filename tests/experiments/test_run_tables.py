import numpy as np
import pandas as pd
import pytest

from asyncfl.base.errors import RunError
from asyncfl.experiments.csv_files import read_csv, write_csv
from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.run_tables import collect, read_run


def test_a_missing_run_is_named(tmp_path):
    with pytest.raises(RunError, match=r"nowhere: cannot be read as a run"):
        read_run(tmp_path / "nowhere")


def test_tables_survive_the_disk(tmp_path):
    frame = pd.DataFrame({"privacy.epsilon": [50.0, np.inf], "name": ["none", "a"], "x": [0.1, np.nan]})
    write_csv(frame, tmp_path / "t.csv")
    pd.testing.assert_frame_equal(read_csv(tmp_path / "t.csv"), frame)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_names_of_runs_are_no_numbers(tmp_path):
    names = ["0042570464500009", "12e4567890123456"]
    write_csv(pd.DataFrame({"run": names}), tmp_path / "t.csv")
    assert list(read_csv(tmp_path / "t.csv")["run"]) == names


def test_a_run_that_ends_unjudged_keeps_what_was_measured_last(tmp_path, make_run):
    folder = make_run(tmp_path / "x", 0.5, seeds=1)
    rounds = pd.read_parquet(folder / "rounds.parquet").assign(honest_bans=[0, 1, 0, 2, 0])
    rounds.loc[3:, "test_accuracy"] = np.nan
    rounds.to_parquet(folder / "rounds.parquet")
    frames = collect([({"a": 1}, folder)])
    assert frames["ends"]["test_accuracy"][0] == rounds["test_accuracy"][2]
    assert frames["ends"]["round"][0] == 4
    assert list(frames["rounds"]["honest_banned"]) == [0, 1, 1, 3, 3]


def test_accuracy_in_each_domain_is_measured_as_seldom_as_the_whole(tmp_path, make_run):
    folder = make_run(tmp_path / "x", 0.5, seeds=1)
    rounds = pd.read_parquet(folder / "rounds.parquet").assign(test_accuracy_usps=[0.1, 0.2, 0.3, np.nan, np.nan])
    rounds.to_parquet(folder / "rounds.parquet")
    ends = collect([({"a": 1}, folder), ({"a": 2}, make_run(tmp_path / "y", 0.5, seeds=1))])["ends"]
    assert ends["test_accuracy_usps"][0] == 0.3
    assert np.isnan(ends["test_accuracy_usps"][1])  # a run of one data set beside it has no such number
    final = over_seeds(ends, ["a"], by_round=False).query("metric == 'test_accuracy_usps'")
    assert final["mean"].tolist() == [0.3]


def test_final_rows_hold_the_provable_epsilon_and_its_measured_share(tmp_path, make_run):
    folder = make_run(tmp_path / "x", 0.5, seeds=2)
    ledger = pd.DataFrame(
        [
            # seed, holder, client, adversary, provable, measured
            (0, "client", 0, "server", 4.0, 1.0),
            (0, "client", 1, "server", 8.0, 3.0),
            (0, "client", 2, "server", 9.0, np.nan),  # not audited
            (0, "client", 3, "server", 0.5, 0.25),
            (0, "client", 0, "both", 99.0, 99.0),
            (0, "model", -1, "server", 77.0, 77.0),
            (1, "client", 0, "server", np.inf, 5.0),
            (1, "client", 1, "server", 0.0, np.nan),  # who sent nothing
        ],
        columns=["seed", "holder", "client", "adversary", "provable", "measured"],
    )
    ledger.to_parquet(folder / "ledger.parquet")
    ends = collect([({}, folder)])["ends"]
    assert ends["epsilon_provable_max"].tolist() == [9.0, np.inf]
    assert ends["measured_of_provable"].tolist() == pytest.approx([0.5, np.nan], nan_ok=True)

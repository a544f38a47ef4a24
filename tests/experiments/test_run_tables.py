"""From run folders to tables: what is read, what a whole run comes to, and targets."""

import numpy as np
import pandas as pd
import pytest

from asyncfl.base.errors import RunError
from asyncfl.experiments.csv_files import read_csv, write_csv
from asyncfl.experiments.experiment_tables import collect, whole_run
from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.table import Table
from asyncfl.experiments.target import Settling, Target
from asyncfl.protocol.messages import Fate
from tests.experiments.results_folder import write_run


def test_tables_survive_the_disk(tmp_path):
    frame = pd.DataFrame({"privacy.epsilon": [50.0, np.inf], "name": ["none", "a"], "x": [0.1, np.nan]})
    write_csv(frame, tmp_path / "t.csv")
    pd.testing.assert_frame_equal(read_csv(tmp_path / "t.csv"), frame)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_names_of_runs_are_no_numbers(tmp_path):
    names = ["0042570464500009", "12e4567890123456"]
    write_csv(pd.DataFrame({"run": names}), tmp_path / "t.csv")
    assert list(read_csv(tmp_path / "t.csv")["run"]) == names


def test_a_run_that_ends_unjudged_keeps_what_was_measured_last(tmp_path):
    folder = write_run(tmp_path / "x", 0.5, seeds=1)
    rounds = pd.read_parquet(folder / "rounds.parquet").assign(honest_bans=[0, 1, 0, 2, 0])
    rounds.loc[3:, "test_accuracy"] = np.nan
    rounds.to_parquet(folder / "rounds.parquet")
    frames = collect([({"a": 1}, folder)])
    assert frames["ends"]["test_accuracy"][0] == rounds["test_accuracy"][2]
    assert frames["ends"]["round"][0] == 4
    assert list(frames["rounds"]["honest_banned"]) == [0, 1, 1, 3, 3]


def test_ends_say_which_columns_are_of_the_whole_run_and_which_of_the_last_version(tmp_path):
    folder = write_run(tmp_path / "x", 0.5, seeds=1)  # twelve updates judged and two honest clients banned in all
    rounds = pd.read_parquet(folder / "rounds.parquet").assign(judged=[0, 4, 4, 4, 0], recall=[np.nan, 1, 1, 0.25, 0])
    rounds = rounds.assign(honest_bans=[0, 1, 1, 0, 0], detector_rank=[np.nan, 3, 2, 2, 1], budget_sum=[0, 9, 9, 9, 6])
    rounds = rounds.assign(waiting_max=[0, 110, 590, 40, 0])
    rounds.to_parquet(folder / "rounds.parquet")
    [end] = collect([({}, folder)])["ends"].to_dict("records")
    assert (end["judged_total"], end["recall_total"]) == (12, 3 / 4)
    assert (end["honest_bans_last"], end["honest_banned"]) == (0, 2)
    assert (end["participants_last"], end["detector_rank_last"], end["budget_sum_last"]) == (12, 1, 6)
    assert (end["staleness_max_total"], end["waiting_max_total"]) == (3, 590)
    # Updates of versions 1 to 4: 3, 6, 9 and 12, of mean staleness .5, 1, 1.5 and 2.
    assert end["staleness_mean_total"] == pytest.approx((3 * 0.5 + 6 + 9 * 1.5 + 12 * 2) / 30)
    assert not {"judged", "recall", "honest_bans", "participants", "staleness_mean", "staleness_max"} & set(end)


def test_accuracy_in_each_domain_is_measured_as_seldom_as_the_whole(tmp_path):
    folder = write_run(tmp_path / "x", 0.5, seeds=1)
    rounds = pd.read_parquet(folder / "rounds.parquet").assign(test_accuracy_usps=[0.1, 0.2, 0.3, np.nan, np.nan])
    rounds.to_parquet(folder / "rounds.parquet")
    ends = collect([({"a": 1}, folder), ({"a": 2}, write_run(tmp_path / "y", 0.5, seeds=1))])["ends"]
    assert ends["test_accuracy_usps"][0] == 0.3
    assert np.isnan(ends["test_accuracy_usps"][1])  # a run of one data set beside it has no such number
    final = over_seeds(ends, ["a"], by_round=False).query("metric == 'test_accuracy_usps'")
    assert final["mean"].tolist() == [0.3]


def test_final_rows_hold_the_provable_epsilon_and_its_measured_share(tmp_path):
    folder = write_run(tmp_path / "x", 0.5, seeds=2)
    ledger = pd.DataFrame(
        [
            # seed, holder, client, adversary, exact_epsilon, provable, measured
            (0, "client", 0, "server", 2.0, 4.0, 1.0),
            (0, "client", 1, "server", 6.0, 8.0, 3.0),
            (0, "client", 2, "server", 1.5, 9.0, np.nan),  # not audited
            (0, "client", 3, "server", 4.0, 0.5, 0.25),
            (0, "client", 0, "both", 99.0, 99.0, 99.0),
            (0, "model", -1, "server", 0.1, 77.0, 77.0),
            (1, "client", 0, "server", np.inf, np.inf, 5.0),
            (1, "client", 1, "server", np.inf, 0.0, np.nan),  # who sent nothing
        ],
        columns=["seed", "holder", "client", "adversary", "exact_epsilon", "provable", "measured"],
    )
    ledger.to_parquet(folder / "ledger.parquet")
    ends = collect([({}, folder)])["ends"]
    assert ends["epsilon_provable_max"].tolist() == [9.0, np.inf]
    assert ends["measured_of_provable"].tolist() == pytest.approx([0.5, np.nan], nan_ok=True)
    assert ends["epsilon_exact_max_over_min"].tolist() == pytest.approx([4.0, np.nan], nan_ok=True)


def write_spending(folder, seeds, holders=("median", "model", "client")):
    """Epsilon of a holder in seed s at version v: v + s, for the models only at versions 2 and 4."""
    rows = [
        {"seed": seed, "holder": holder, "adversary": who, "version": version}
        | {f"{name}_epsilon": version + seed + extra for name, extra in EXTRA.items()}
        for seed in range(seeds)
        for who in ("server", "eavesdropper", "public")
        for holder in holders
        for version in ((2, 4) if holder == "model" else (0, 1, 2, 3, 4, 4))
    ]
    pd.DataFrame(rows).to_parquet(folder / "spending.parquet")


EXTRA = {"naive": 0.3, "basic": 0.2, "advanced": 0.25, "rdp": 0.1, "exact": 0.0}


def test_each_version_has_the_epsilon_spent_so_far(tmp_path):
    folder = write_run(tmp_path / "x", 0.5, seeds=2)
    rounds = pd.read_parquet(folder / "rounds.parquet").assign(epsilon_exact_max=10.0)
    rounds.to_parquet(folder / "rounds.parquet")
    write_spending(folder, 2)
    frames = collect([({}, folder)])
    second = frames["rounds"].query("seed == 1")
    assert second["epsilon_exact_median"].tolist() == [1, 2, 3, 4, 5]
    # models have rows only where something changed: what was spent stays spent
    assert second["epsilon_exact_model"].tolist() == [0, 0, 3, 3, 5]
    assert second["epsilon_naive_model"].tolist() == pytest.approx([0, 0, 3.3, 3.3, 5.3])
    assert second["epsilon_exact_sum"].tolist() == [10, 10, 13, 13, 15]
    final = over_seeds(frames["ends"], [], by_round=False).set_index("metric")["mean"]
    assert final["epsilon_exact_model"] == 4.5


def test_a_scheme_that_states_nothing_about_models_has_no_epsilon_of_them(tmp_path):
    folder = write_run(tmp_path / "x", 0.5, seeds=1)
    write_spending(folder, 1, holders=("median",))
    ends = collect([({}, folder)])["ends"]
    assert np.isnan(ends["epsilon_exact_model"]).all()
    assert ends["epsilon_exact_median"].tolist() == [4]


CLIENTS = pd.DataFrame(
    {
        "seed": [0, 0, 0],
        "exposures_up": [0, 1, 2],
        "exposures_down": [1, 1, 1],
        "attacker": [True, False, False],
        "uploads": [6, 2, 2],
        "aggregated": [4, 2, 2],
        "used": [1, 2, 2],
    }
)
ROUNDS = pd.DataFrame(
    {
        "seed": [0, 0, 0],
        "round": [0, 1, 2],
        "participants": [0, 1, 3],
        "staleness_mean": [np.nan, 0.0, 4.0],
        "staleness_max": [-1, 0, 6],
    }
)
DETECTION = {
    "judged": 10,
    "true_positives": 4,
    "false_positives": 1,
    "false_negatives": 3,
    "unjudged": 5,
    "malicious_unjudged": 1,
    "honest_bans": 0,
    "malicious_bans": 1,
    "attackers": 2,
    "precision": 0.8,
    "recall": 4 / 7,
    "recall_judged": 4 / 6,
    "unjudged_share": 5 / 15,
}


def counted(detection=None, **more):
    said = {"versions": 2, "exposures": {"assumed": None, "downlink_versions": 1}, **more}
    if detection is not None:
        said["detection"] = detection
    return whole_run(ROUNDS, CLIENTS, {"seeds": {"0": said}}).iloc[0]


def test_detection_of_the_whole_run():
    row = counted(DETECTION)
    assert (row["judged_total"], row["true_positives_total"], row["honest_banned"], row["malicious_banned"]) == (
        10,
        4,
        0,
        1,
    )
    assert row["precision_total"] == 0.8
    assert row["malicious_banned_share"] == 0.5
    assert row["honest_flagged_share"] == 1 / 8
    shares = ("recall_total", "recall_judged_total", "unjudged_share_total")
    assert [row[name] for name in shares] == pytest.approx([4 / 7, 4 / 6, 1 / 3])


def test_recall_of_an_earlier_run_is_unknown_where_its_detector_abstained():
    # It did not count the malicious updates on which its detector abstained.
    lacking = {name: count for name, count in DETECTION.items() if name not in ("malicious_unjudged", "recall_judged")}
    row = counted(lacking)
    assert np.isnan([row[name] for name in ("recall_total", "recall_judged_total", "false_negatives_total")]).all()
    assert (row["precision_total"], row["unjudged_share_total"]) == (0.8, 1 / 3)
    assert counted(lacking | {"unjudged": 0})["recall_total"] == 4 / 7


def test_precision_and_recall_are_undefined_without_attackers():
    nobody = dict.fromkeys(DETECTION, 0) | {"judged": 10, "precision": None, "recall": None}
    row = counted(nobody)
    assert np.isnan([row["precision_total"], row["recall_total"], row["malicious_banned_share"]]).all()
    assert row["honest_flagged_share"] == 0


def test_staleness_counts_updates_not_versions():
    row = counted()
    assert row["staleness_mean_total"] == 3.0
    assert row["staleness_max_total"] == 6
    assert "precision_total" not in row


def test_exposure_and_the_attackers_part():
    row = counted()
    assert (row["exposures_up_max"], row["exposures_up_mean"], row["overheard_down_share"]) == (2, 1, 0.5)
    assert np.isnan(row["exposures_assumed"])
    assert row["attacker_upload_share"] == 0.6
    assert row["uploads_max_over_min"] == 3
    assert row["attacker_aggregated_share"] == pytest.approx(0.2)


def test_outcomes_of_tasks_are_shares_of_all_tasks():
    fates = dict.fromkeys(Fate, 0) | {"aggregated": 5, "late": 2, "surplus": 1, "dropped_out": 1, "unfinished": 1}
    row = counted(fates=fates)
    assert (row["aggregated_share"], row["late_share"], row["interrupted_share"]) == (0.5, 0.3, 0.1)
    assert "late_share" not in counted()  # where a summary says nothing of outcomes


def test_kappa_is_of_the_buffers_in_which_the_honest_outweigh_the_attackers():
    # Version 1: error 2 at spread 1, a quarter of the weight; version 2: 1 at 3, a third; version 3: outnumbered.
    measured = pd.DataFrame(
        {
            "aggregate_error": [np.nan, 2.0, 1.0, 50.0],
            "honest_spread": [np.nan, 1.0, 3.0, 1.0],
            "attackers_weight": [np.nan, 0.25, 1 / 3, 0.5],
        }
    )
    rounds = measured.assign(seed=0, round=range(4), participants=1, staleness_mean=0.0, staleness_max=0)
    row = whole_run(rounds, CLIENTS, {"seeds": {"0": {}}}).iloc[0]
    assert row["kappa"] == pytest.approx((2 + 1) / (1 + 3))
    # a / (1 - 2 a) is 1 / 2 in the first, 1 in the second.
    assert row["kappa_bound"] == pytest.approx((1 / 2 * 1 + 1 * 3) / 4)
    assert row["outnumbered_share"] == pytest.approx(1 / 3)
    nobody = rounds.assign(attackers_weight=0.6)
    assert np.isnan(whole_run(nobody, CLIENTS, {"seeds": {"0": {}}}).iloc[0]["kappa"])
    alone = rounds.assign(honest_spread=0.0, aggregate_error=1e-12)
    assert np.isnan(whole_run(alone, CLIENTS, {"seeds": {"0": {}}}).iloc[0]["kappa"]), (
        "one honest update disagrees with nobody"
    )


EVALUATED = pd.DataFrame(
    {
        "seed": [0, 0, 0, 1, 1, 1],
        "round": [0, 1, 2, 0, 1, 2],
        "time_s": [0.0, 5.0, 9.0, 0.0, 6.0, 8.0],
        "test_accuracy": [0.1, 0.6, 0.5, 0.1, np.nan, 0.4],
        "test_loss": [2.3, 1.0, 0.5, 2.3, np.nan, 0.9],
        "bytes_up": [0, 10, 20, 0, 10, 20],
        "bytes_down": [0, 1, 2, 0, 1, 2],
    }
)
SOUND = pd.DataFrame({"seed": [0, 1], "diverged": [False, False]})


def reached(ends=SOUND, **target):
    return Target(**target).costs(EVALUATED, ends).tolist()


def test_cost_at_the_first_version_that_gets_there():
    assert reached(reaches=0.4) == [5.0, 8.0]
    assert reached(reaches=0.4, cost="bytes") == [11.0, 22.0]
    assert reached(reaches=0.4, cost="round") == [1.0, 2.0]
    assert reached(reaches=1.0, column="test_loss", direction="falls") == [5.0, 8.0]


def test_a_target_was_reached_between_two_evaluated_versions():
    rounds = pd.DataFrame(
        {
            "seed": [0] * 6 + [1] * 3,
            "round": [0, 1, 2, 3, 4, 5, 0, 1, 2],
            "time_s": [0.0, 2.0, 3.0, 5.0, 7.0, 8.0, 0.0, 4.0, 6.0],
            "test_accuracy": [0.1, np.nan, 0.3, np.nan, 0.6, 0.7, 0.1, 0.5, 0.6],
        }
    )
    rounds[["bytes_up", "bytes_down"]] = 0

    def interval(reaches):
        return Target(reaches=reaches).intervals(rounds, SOUND).tolist()

    # Seed 0: versions 2 and 4 were evaluated, 3 was not. Seed 1: version 1 is the first that reaches it.
    assert interval(0.4) == [[3.0, 7.0], [4.0, 4.0]]
    assert interval(0.65) == [[8.0, 8.0], [np.inf, np.inf]]
    assert interval(0.05) == [[0.0, 0.0], [0.0, 0.0]]


def test_never_is_infinite():
    assert reached(reaches=0.55) == [5.0, np.inf]
    assert reached(ends=SOUND.assign(diverged=[True, False]), reaches=0.4) == [np.inf, 8.0]


def test_a_missing_column_is_named():
    with pytest.raises(RunError, match="no column accuracy"):
        reached(column="accuracy", reaches=1)


def test_a_target_that_a_seed_missed_has_no_mean(tmp_path):
    # final accuracies are 1 - loss / 3: seeds .003 apart in their loss
    run = write_run(tmp_path / "run", 0.5, seeds=2)
    targets = {"time_to_near": Target(reaches=0.8), "time_to_far": Target(reaches=1 - 0.5005 / 3)}
    ends = collect([({"a": 1}, run)], targets)["ends"]
    assert ends["time_to_near"].tolist() == [100.0, 100.0]
    assert ends["time_to_far"].tolist() == [100.0, np.inf]
    final = over_seeds(ends, ["a"], by_round=False).set_index("metric")
    assert final.loc["time_to_near", "mean"] == 100.0
    assert np.isinf(final.loc["time_to_far", "mean"])
    assert np.isnan(final.loc["time_to_far", ["low", "high"]].astype(float)).all()
    table = Table(rows="a", value="time_to_far")
    assert "not by all seeds" in table.markdown({"a": (1,)}, final.reset_index())


def rising(until, rounds=100, step=0.01):
    """A curve that rises by `step` each round up to `until` and then stays, by round from 0 on."""
    return pd.Series([step * min(at, until) for at in range(rounds + 1)])


def test_a_run_settles_at_its_plateau():
    assert Settling(within=0.0, window=0.01).settled_round(rising(50)) == 50
    assert Settling(within=0.1, window=0.01).settled_round(rising(50)) == 40
    # the mean of the last ten rounds reaches the plateau nine rounds after its last step
    assert Settling(within=0.0, window=0.1).settled_round(rising(50)) == 59


def test_a_run_that_still_rose_shortly_before_its_end_has_not_settled():
    assert Settling(within=0.0, window=0.01).settled_round(rising(80)) == 80
    assert Settling(within=0.0, window=0.01).settled_round(rising(81)) is None
    assert Settling(within=0.0, window=0.01, watched=0.01).settled_round(rising(100)) is None


def test_dips_after_settling_do_not_count_and_neither_do_rounds_that_were_not_judged():
    curve = rising(50)
    curve[70] = 0.1
    curve[51:60:2] = np.nan
    assert Settling(within=0.0, window=0.01).settled_round(curve) == 50
    assert Settling(within=0.0).settled_round(curve * np.nan) is None


def test_a_run_that_learns_nothing_has_not_settled():
    flat, falling = pd.Series(np.full(101, 0.1)), pd.Series(np.linspace(0.5, 0.1, 101))
    for curve in (flat, falling, flat + 0.009 * (np.arange(101) % 2)):
        assert Settling(within=0.01).settled_round(curve) is None
    # the initial model need not have been judged
    assert Settling(within=0.1, window=0.01).settled_round(rising(50)[10:]) == 40


def test_settling_is_a_target_of_each_seed():
    falling = 2.0 - np.concatenate([rising(50), rising(100)])
    rounds = pd.DataFrame({"seed": np.repeat([0, 1], 101), "round": np.tile(np.arange(101), 2), "test_loss": falling})
    target = Target(column="test_loss", settles={"within": 0.0, "window": 0.01}, direction="falls", cost="round")
    assert target.costs(rounds, SOUND).tolist() == [50.0, np.inf]


@pytest.mark.parametrize("fields", [{}, {"reaches": 0.5, "settles": {"within": 0.1}}])
def test_a_target_is_a_value_or_a_settled_column(fields):
    with pytest.raises(ValueError, match="either reaches, a value, or settles"):
        Target(**fields)

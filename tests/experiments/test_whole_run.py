import numpy as np
import pandas as pd
import pytest

from asyncfl.experiments.run_tables import whole_run

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
    "false_negatives": 2,
    "honest_bans": 0,
    "malicious_bans": 1,
    "attackers": 2,
    "precision": 0.8,
    "recall": 4 / 6,
}


def counted(detection=None):
    said = {"versions": 2, "exposures": {"assumed": None, "downlink_versions": 1}}
    if detection is not None:
        said["detection"] = detection
    return whole_run(ROUNDS, CLIENTS, {"seeds": {"0": said}}).iloc[0]


def test_detection_of_the_whole_run():
    row = counted(DETECTION)
    assert (row["judged"], row["true_positives"], row["honest_banned"], row["malicious_banned"]) == (10, 4, 0, 1)
    assert row["precision"] == 0.8
    assert row["malicious_banned_share"] == 0.5
    assert row["honest_flagged_share"] == 1 / 4


def test_precision_and_recall_are_undefined_without_attackers():
    nobody = dict.fromkeys(DETECTION, 0) | {"judged": 10, "precision": None, "recall": None}
    row = counted(nobody)
    assert np.isnan([row["precision"], row["recall"], row["malicious_banned_share"]]).all()
    assert row["honest_flagged_share"] == 0


def test_staleness_counts_updates_not_versions():
    row = counted()
    assert row["staleness_mean"] == 3.0
    assert row["staleness_max"] == 6
    assert "precision" not in row


def test_exposure_and_the_attackers_part():
    row = counted()
    assert (row["exposures_up_max"], row["exposures_up_mean"], row["overheard_down_share"]) == (2, 1, 0.5)
    assert np.isnan(row["exposures_assumed"])
    assert row["attacker_upload_share"] == 0.6
    assert row["attacker_aggregated_share"] == pytest.approx(0.2)


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

"""Verdicts, statistics and notes of defences in the tables and summaries of runs."""

import re
from typing import Any

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.defences import Buffer, Detector, Verdict, accept_all
from asyncfl.experiments.experiment_tables import whole_run
from asyncfl.results.run_tables import clients_table, rounds_table, seed_summary
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.threats import LyingEvaluator

SCORED: dict[str, Any] = {
    "protocol": {"kind": "buffered", "rounds": 6, "buffer": 4, "dispatch": {"kind": "constant", "in_flight": 4}},
    "defence": {"detector": {"kind": "safl"}},
    "evaluation.train_every": 0,
    "evaluation.test_every": 0,
}
ATTACKED = {"threats": {"attack": {"kind": "sign_flip", "factor": 5}, "attackers": 2}}


def whole(run: SeedRun) -> dict[str, Any]:
    rounds, clients = rounds_table(run).to_pandas(), clients_table(run).to_pandas()
    return dict(whole_run(rounds, clients, {"seeds": {"0": seed_summary(run)}}).iloc[0])


def test_each_version_has_precision_and_recall_of_its_verdict(scenario: Scenario) -> None:
    table = rounds_table(simulate_seed(scenario.override(SCORED | ATTACKED), 0)).to_pandas()
    true, false, missed = (table[f"{name}"] for name in ("true_positives", "false_positives", "false_negatives"))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(table["precision"], true / (true + false))
        np.testing.assert_array_equal(table["recall"], true / (true + missed))
    assert np.isnan(table["precision"][0])
    assert table["recall"].notna().any()


@pytest.mark.parametrize("reading", ["discard", "aggregate"])
def test_a_buffer_without_scores_accuses_no_client(scenario: Scenario, reading: str) -> None:
    # One packet for a task, six for a request of scores: one that three evaluators miss is not rare.
    lossy = {"loss": {"kind": "independent", "probability": 0.2}, "retransmissions": 0, "mtu_bytes": 30_000}
    detector = {"kind": "safl", "without_scores": reading}
    changes = SCORED | {"world.downlink": lossy, "defence": {"detector": detector}}
    run = simulate_seed(scenario.override(changes), 0)
    table = rounds_table(run).to_pandas()
    silent = table["judged"] == 0 if reading == "discard" else table["false_positives"] == 0
    assert silent[1:].any()
    assert (table["judged"] + table["unjudged"])[1:].tolist() == [4] * 6
    assert (table["unjudged"] > 0).any() == (reading == "discard")
    scored_low = [text for text in run.events["detail"].to_pylist() if text.startswith("scored ")]
    assert table["false_positives"].sum() == len(scored_low)
    assert whole(run)["honest_flagged_share"] == len(scored_low) / 24
    assert seed_summary(run)["detection"]["unjudged"] == table["unjudged"].sum()


def test_attacks_that_a_detector_abstained_on_are_missed(scenario: Scenario) -> None:
    # The buffers of a run this short tell the detector too little to judge anyone.
    run = simulate_seed(scenario.override(SCORED | ATTACKED | {"defence": {"detector": {"kind": "evidence"}}}), 0)
    told, sent = seed_summary(run)["detection"], sum(one.attacked for one in run.uploads)
    assert sent > 0
    assert (told["judged"], told["unjudged"], told["malicious_unjudged"], told["false_negatives"]) == (
        0,
        24,
        sent,
        sent,
    )
    assert (told["recall"], told["recall_judged"], told["unjudged_share"]) == (0, None, 1)
    assert whole(run)["honest_flagged_share"] == 0


def test_updates_that_krum_does_not_choose_are_not_used(scenario: Scenario) -> None:
    krum = {"defence": {"rule": {"kind": "krum", "byzantine": 1}}, "protocol.rounds": 4}
    attacked = {"threats": {"attack": {"kind": "gaussian", "std": 10.0}, "attackers": 1}}
    run = simulate_seed(scenario.override({**krum, **attacked}), 0)
    clients = clients_table(run).to_pandas()
    assert clients["aggregated"].tolist() == [4] * 5
    assert clients["used"].sum() == run.used == 4
    assert clients["used"][clients["attacker"]].tolist() == [0]
    assert whole(run)["attacker_aggregated_share"] == 0
    assert whole(run)["attacker_upload_share"] == pytest.approx(0.2)


PER_ROUND = {"threats": {"attack": {"kind": "sign_flip", "factor": 5}, "attackers": 2, "selection": "per_round"}}


def attacked_tasks(run: SeedRun) -> set[int]:
    return {one.task for one in run.uploads if one.attacked}


@pytest.mark.parametrize("kind", ["sync", "buffered"])
def test_attackers_per_round_are_a_fixed_number_of_the_tasks_begun(scenario: Scenario, kind: str) -> None:
    asynchronous = {"kind": kind, "rounds": 6, "buffer": 4, "dispatch": {"kind": "constant", "in_flight": 4}}
    protocol = asynchronous if kind == "buffered" else {"kind": kind, "rounds": 6, "participants": 4}
    run = simulate_seed(scenario.override(PER_ROUND | {"protocol": protocol}), 0)
    assert run.drawn is not None
    rounds = np.bincount(np.array(run.drawn) // 4)
    assert set(rounds[:6]) == {2}
    trained = {one.task for one in run.uploads}
    assert attacked_tasks(run) == trained & set(run.drawn)


def test_a_stale_update_is_malicious_if_its_task_was_drawn(scenario: Scenario) -> None:
    stale = {"protocol": SCORED["protocol"] | {"rounds": 12, "buffer": 2}, "data.clients": 8}
    stale["protocol"]["dispatch"] = {"kind": "constant", "in_flight": 7}
    run = simulate_seed(scenario.override(SCORED | PER_ROUND | stale | {"threats.attackers": 1}), 0)
    assert max(row["staleness_max"] for row in run.rounds) > 1
    bad = attacked_tasks(run)
    events = run.events.to_pandas()
    flagged = set(events["task"][events["kind"] == "flagged"])
    accepted = set(events["task"][events["kind"] == "aggregated"])
    told = seed_summary(run)["detection"]
    assert told["true_positives"] == len(flagged & bad)
    assert told["false_positives"] == len(flagged - bad)
    assert told["false_negatives"] == len(accepted & bad)
    assert told["precision"] == pytest.approx(len(flagged & bad) / len(flagged))
    assert told["recall"] == pytest.approx(len(flagged & bad) / len(bad & (flagged | accepted)))
    clients = clients_table(run).to_pandas()
    assert clients["malicious_used"].sum() == len(accepted & bad)
    assert whole(run)["attacker_aggregated_share"] == pytest.approx(len(accepted & bad) / len(accepted))
    assert told["attackers"] == clients["attacker"].sum() > 1


def test_sleeping_attackers_lie_about_the_buffers_that_they_attack(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LyingEvaluator, "lie", lambda self, scores, random: np.full(len(scores), 0.5))
    asleep = {"attack": {"kind": "lying_evaluator"}, "attackers": 1.0, "rhythm": {"asleep": 3, "awake": 2}}
    changes = {"protocol": {"kind": "sync", "rounds": 10}, "defence": SCORED["defence"], "threats": asleep}
    rounds = rounds_table(simulate_seed(scenario.override(changes), 0)).to_pandas()[1:]
    assert (rounds["detector_score_high"] == 0.5).tolist() == [False, False, False, True, True] * 2


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

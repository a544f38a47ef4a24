"""Audits within runs and of runs on disk: the same numbers, the same bytes, and bad input."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.api import execute, simulate
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.experiments.experiment_tables import read_run
from asyncfl.extras.audit.finished_run import FinishedRun
from asyncfl.extras.audit.neighbours.audit_run import audit_neighbours, save_run
from asyncfl.measurements import TwinAudit
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

TAPPED = {"tap": {"uplink": True, "packet_loss": 0.02}}
AUDIT = {"clients": 2, "twins": 7}


def described(tiny: dict[str, Any], **changes: Any) -> Scenario:
    return Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 500}, **changes})


def audited_on_disk(folder: Path, **audit: Any) -> Path:
    finished = FinishedRun.load(folder)
    save_run(finished, audit_neighbours(finished, TwinAudit(**{**AUDIT, **audit}), finished.seeds()))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.name not in ("timing.json",)}


def test_an_audit_within_a_run_equals_one_afterwards(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["world"] |= TAPPED
    audit = {"clients": 2, "twins": 3, "neighbours": ("ordinary", "exchanged", "zeroed")}
    inside = execute(described(tiny, seeds=2, evaluation={"audit": audit}), tmp_path / "inside")
    after = audited_on_disk(execute(described(tiny, seeds=2), tmp_path / "after"), **audit)
    tables = [Run.load(folder).audit for folder in (inside, after)]
    pd.testing.assert_frame_equal(tables[0], tables[1].sort_values("seed", kind="stable").reset_index(drop=True))
    ledgers = [Run.load(folder).ledger for folder in (inside, after)]
    pd.testing.assert_frame_equal(*ledgers)
    assert ledgers[0]["measured"].notna().sum() > 0
    assert set(tables[0]["adversary"]) == {"eavesdropper", "server", "both"}
    privacy = [Run.load(folder).summary["privacy"] for folder in (inside, after)]
    assert privacy[0] == privacy[1]
    assert any("measured by twins at least" in sentence for sentence in privacy[0])


def test_twins_stop_at_the_deadline_of_their_clients(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Two of three epochs: of a replaced sample two sums differ, each by no more than twice the clip."""
    private = {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 1.0}
    training = {"lr": 0.05, "batch_size": 10, "epochs": 3, "deadline_s": 1.0, "example_clip": 1.0, "example_noise": 1.0}
    tiny["world"]["device"] = {"kind": "fixed", "s_per_sample": 0.02}
    audit = {**AUDIT, "twins": 5, "neighbours": ["ordinary"]}
    stopped = described(tiny, privacy=private, training=training, evaluation={"audit": audit})
    run = Run.load(execute(stopped, tmp_path / "run"))
    held = run.ledger.query("adversary == 'server' and client >= 0 and releases == 3")
    # Three uploads of two releases of half the multiplier each.
    assert held["mu"].to_numpy() == pytest.approx(2 * np.sqrt(6))
    assert 0 < held["measured"].max() <= held["exact_epsilon"].max()
    assert run.audit["sensitivity_share"].max() <= 1 + 1e-6


DISPROVED = {"kind": "local_gaussian", "epsilon": 5, "clip_norm": 0.02}
OVERSHOOTING = {"lr": 0.5, "batch_size": 5, "epochs": 3, "momentum": 0.9, "gradient_clip": 0.02}


def test_an_audit_replaces_an_earlier_one_completely(tiny: dict[str, Any], tmp_path: Path) -> None:
    scenario = described(tiny, privacy=DISPROVED, training=OVERSHOOTING, seeds=2)
    folder = audited_on_disk(execute(scenario, tmp_path / "run"))
    both = Run.load(folder)
    assert {"disproved-0.txt", "disproved-1.txt"} <= both.files.keys()
    weaker = {"clients": (3,), "twins": 5, "neighbours": ("exchanged",)}
    finished = FinishedRun.load(folder)
    save_run(finished, audit_neighbours(finished, TwinAudit(**{**AUDIT, **weaker}), (1,)))
    one = Run.load(folder)
    assert one.ledger.query("seed == 1 and status == 'disproved'").empty
    assert set(one.ledger.query("seed == 1 and measured.notna()")["client"]) <= {3}
    pd.testing.assert_frame_equal(one.ledger.query("seed == 0"), both.ledger.query("seed == 0"))
    assert {name for name in one.files if name.startswith("disproved-0")} == {"disproved-0.npz", "disproved-0.txt"}
    audited_on_disk(folder, **weaker)
    alone = audited_on_disk(execute(scenario, tmp_path / "alone"), **weaker)
    assert files(folder) == files(alone)


def test_an_audit_changes_no_other_file_of_the_run(tiny: dict[str, Any], tmp_path: Path) -> None:
    sound = {"kind": "nbafl", "epsilon": 500, "sensitivity": "2C"}
    folder = execute(described(tiny, privacy=sound, evaluation={"record": "digests"}), tmp_path / "run")
    before = files(folder)
    after = files(audited_on_disk(folder))
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"audit.parquet", "ledger.parquet", "summary.json", ".asyncfl.json"}
    old, new = (json.loads(one["summary.json"]) for one in (before, after))
    assert {name for name in new if new[name] != old[name]} == {"privacy"}


def test_a_disproved_sensitivity_is_reported_with_its_example(tiny: dict[str, Any], tmp_path: Path) -> None:
    scenario = described(tiny, privacy=DISPROVED, training=OVERSHOOTING)
    run = Run.load(audited_on_disk(execute(scenario, tmp_path / "run")))
    ledger = run.ledger
    rows = ledger[(ledger["adversary"] == "server") & ledger["measured"].notna()]
    assert len(rows) == 2
    assert (rows["status"] == "disproved").all()
    assert not rows["claim_holds"].any()
    assert (rows["measured"] > rows["exact_epsilon"]).all()  # that is what the wrong sensitivity is worth
    text = run.files["disproved-0.txt"].decode()
    line = text.splitlines()[0]
    found = re.fullmatch(
        r"client (\d), task (\d+) from version (\d): sample (\d+) is replaced \((\w+)\), the other one has label (\d); "
        r"\|u - u'\| is ([\d.e-]+), assumed at most ([\d.e-]+)",
        line,
    )
    assert found is not None, line
    assert float(found[7]) > float(found[8])
    with np.load(tmp_path / "run" / "disproved-0.npz") as kept:
        assert kept[f"client{found[1]}_image"].shape == (1, 28, 28)
        assert int(kept[f"client{found[1]}_label"]) == int(found[6])
        assert int(kept[f"client{found[1]}_sample"]) == int(found[4])
    [note] = [one for one in run.summary["notes"] if one.startswith("audit: the assumed sensitivity is disproved")]
    assert note.endswith(", and the same for 1 more client")


def test_epsilon_without_noise_is_infinite(tiny: dict[str, Any], tmp_path: Path) -> None:
    run = Run.load(audited_on_disk(execute(Scenario.read(tiny), tmp_path / "run")))
    measured = run.ledger.query("adversary == 'server'")["measured"].dropna()
    assert len(measured) == 2
    assert np.isinf(measured).all()
    assert any("epsilon is infinite" in note for note in run.summary["notes"])


def test_measured_epsilons_are_columns_of_an_experiments_tables(tiny: dict[str, Any], tmp_path: Path) -> None:
    folder = execute(described(tiny, evaluation={"audit": AUDIT}), tmp_path / "run")
    rounds, _, _ = read_run(folder)
    assert rounds["epsilon_measured_max"].tolist()[0] == 0.0
    assert (rounds["epsilon_measured_max"].diff().dropna() > 0).all()
    table = Run.load(folder).audit.query("holder == 'client' and adversary == 'server' and counts")
    assert rounds["epsilon_measured_max"].iloc[-1] == table["epsilon"].max()
    assert rounds["sensitivity_share_max"].iloc[-1] == table["sensitivity_share"].max()
    assert (rounds["epsilon_measured_overheard_max"] == 0).all()  # no link is tapped
    assert (rounds["epsilon_measured_model"].iloc[1:] > 0).all()


def test_audited_clients_must_exist_and_have_uploaded(tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"evaluation.audit.clients: must be at most data.clients \(5\), got 9"):
        described(tiny, evaluation={"audit": {"clients": 9}})
    with pytest.raises(ScenarioError, match=r"evaluation.audit.clients.1: must be 0..4 \(data.clients is 5\), got 5"):
        described(tiny, evaluation={"audit": {"clients": [0, 5]}})
    with pytest.raises(ScenarioError, match=r"evaluation.audit.neighbours: must name at least one, each once"):
        described(tiny, evaluation={"audit": {"neighbours": ["noise", "noise"]}})
    few = {"kind": "sync", "rounds": 1, "participants": 2}
    folder = execute(described(tiny, protocol=few), tmp_path / "few")
    sent = Run.load(folder).clients.query("uploads > 0")["client"].tolist()
    [silent, *_] = [client for client in range(5) if client not in sent]
    with pytest.raises(RunError, match=f"client {silent} uploaded nothing of its own in seed 0; choose others"):
        audited_on_disk(folder, clients=(silent,))
    inside = simulate(described(tiny, protocol=few, evaluation={"audit": {"clients": [silent], "twins": 7}}))
    assert any(f"nothing is measured of client {silent}" in note for note in inside.summary["notes"])
    assert len(inside.audit) == 0


def test_twins_have_budgets_of_their_own_where_these_follow_the_losses(tiny: dict[str, Any]) -> None:
    adaptive = {"kind": "adaptive", "budgets": [500.0] * 5, "sensitivity": "2M"}
    tiny["world"]["uplink"] |= {"loss": {"kind": "independent", "probability": 0.01}, "retransmissions": 0}
    table = simulate(described(tiny, privacy=adaptive, evaluation={"audit": AUDIT})).audit
    spreads = table["sigma"] != table["twin_sigma"]
    first = table.groupby(["client", "adversary", "kind"])["task"].transform("min") == table["task"]
    assert spreads[~first].any()
    assert (table[table["kind"] == "zeroed"]["sigma"] == table[table["kind"] == "zeroed"]["twin_sigma"]).all()
    # With other noise two worlds differ by more than by the distance of their means.
    server = table[(table["adversary"] == "server") & spreads]
    assert (server["epsilon_once"] > 0).all()


def test_an_audit_with_twins_that_are_no_neighbours_of_the_claim_says_so(tiny: dict[str, Any]) -> None:
    zero_out = {"kind": "dp_fedavg", "noise_multiplier": 1.1, "neighbours": "zero_out"}
    run = simulate(described(tiny, privacy=zero_out, evaluation={"audit": {**AUDIT, "neighbours": ["noise"]}}))
    note = "for the claim (zero_out of a client) only these twins are neighbours: zeroed"
    assert any(note in " ".join(one.split()) for one in run.summary["notes"])
    assert run.ledger["measured"].isna().all()


@pytest.mark.parametrize(("noise", "holders"), [(0.0, {"client", "model"}), (0.5, {"client"})])
def test_models_are_not_audited_where_training_adds_noise(
    tiny: dict[str, Any], noise: float, holders: set[str]
) -> None:
    training = {"lr": 0.05, "batch_size": 10, "example_clip": 1.0, "example_noise": noise}
    of_training = {"privacy": {"kind": "dp_sgd", "noise_multiplier": noise, "clip_norm": 1.0}} if noise else {}
    run = simulate(described(tiny, training=training, evaluation={"audit": AUDIT}, **of_training))
    assert set(run.tables["audit"]["holder"].to_pylist()) == holders


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        (2, "audit: nothing is measured in seed 0: no honest and finite update was collected"),
        ((3,), "audit: nothing is measured of client 3 in seed 0: no honest and finite update was collected"),
    ],
)
def test_non_finite_updates_are_reported(tiny: dict[str, Any], clients: Any, message: str) -> None:
    private = {"kind": "dp_fedavg", "noise_multiplier": 1.1}
    training = {"lr": 1e38, "batch_size": 10, "epochs": 2}
    audit = {"clients": clients, "twins": 5}
    run = simulate(described(tiny, privacy=private, training=training, evaluation={"audit": audit}))
    assert message in run.summary["notes"]


@pytest.mark.parametrize(
    "privacy",
    [
        {"kind": "none"},
        {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 1.0},
        {"kind": "nbafl", "epsilon": 60, "exposures": 1, "clip_norm": 1.0},
    ],
    ids=lambda privacy: privacy["kind"],
)
def test_noise_of_training_that_the_scheme_does_not_account_for_is_refused(
    tiny: dict[str, Any], privacy: dict[str, Any], tmp_path: Path
) -> None:
    refused = re.escape(
        "training.example_noise: must be 0 where twins are trained (evaluation.audit, asyncfl audit neighbours), "
        f"got 1.5: privacy.kind {privacy['kind']} does not account for it; set it to 0, or choose dp_sgd, which does"
    )
    tiny["training"] |= {"example_clip": 1.0, "example_noise": 1.5}
    alone = described(tiny, privacy=privacy)
    with pytest.raises(ScenarioError, match=f"^{refused}$"):
        described(tiny, privacy=privacy, evaluation={"audit": {"clients": 1, "twins": 1}})
    if privacy["kind"] == "dp_fedavg":
        folder = execute(alone, tmp_path / "run")
        before = files(folder)
        with pytest.raises(ScenarioError, match=f"run/scenario.yaml: {refused}"):
            audited_on_disk(folder)
        assert files(folder) == before


def test_personal_layers_are_refused(tiny: dict[str, Any]) -> None:
    tiny["model"] = {"kind": "mlp", "hidden": [5], "personal": ["3.*"]}
    with pytest.raises(ScenarioError, match=r"model\.personal: must be empty where twins are trained"):
        described(tiny, evaluation={"audit": AUDIT})

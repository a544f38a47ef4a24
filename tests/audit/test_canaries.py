from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from asyncfl.api import execute
from asyncfl.audit.canaries import _claim_of, audit_canaries, save
from asyncfl.audit.finished_run import FinishedRun, read_attacks, write_attacks
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.data.canaries import Canaries
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.estimators.one_run import largest_detectable_epsilon
from asyncfl.scenario import Scenario

TAPPED = {"tap": {"uplink": True, "downlink": True}}


def finished(folder: Path, tiny: dict[str, Any], **fields: Any) -> FinishedRun:
    world = tiny["world"] | TAPPED
    training = {"lr": 0.1, "batch_size": 10, "epochs": 5}
    description = {**tiny, "world": world, "training": training, **fields}
    return FinishedRun.load(execute(Scenario.read(description), folder / "run"))


def found(run: FinishedRun, canaries: Canaries, delta: float | None = None) -> pd.DataFrame:
    return audit_canaries(run, canaries, run.seeds(), delta).found.to_pandas().set_index("adversary")


def test_without_noise_most_canaries_are_recognised_in_the_uploads(tmp_path: Path, tiny: dict[str, Any]) -> None:
    rows = found(finished(tmp_path, tiny), Canaries(count=100))
    assert rows.index.tolist() == ["eavesdropper", "server", "both", "public_last", "public"]
    assert rows.loc["server", "measured"] > 1.5
    assert rows.loc["eavesdropper", "measured"] == rows.loc["server", "measured"]
    assert (rows["measured"] <= rows["most"]).all()
    assert rows.loc["public_last", "most"] == pytest.approx(largest_detectable_epsilon(100, 0.0))
    assert rows.loc["server", "most"] == pytest.approx(largest_detectable_epsilon(100, 0.0, 0.05 / 4))
    # Without noise nothing is claimed.
    assert rows["claimed_epsilon"].tolist() == [float("inf")] * 5
    assert (rows["delta"] == 0).all()
    assert rows["measured_gaussian"].isna().all()


@pytest.mark.parametrize(
    ("privacy", "training"),
    [
        ({"kind": "dp_sgd", "noise_multiplier": 1.0}, {"example_clip": 1.0, "example_noise": 1.0}),
        ({"kind": "dp_fedavg", "noise_multiplier": 2.0, "clip_norm": 0.5}, {}),
    ],
)
def test_schemes_with_a_proof_are_measured_below_what_is_proven(
    tmp_path: Path, tiny: dict[str, Any], privacy: dict[str, Any], training: dict[str, Any]
) -> None:
    rows = found(
        finished(tmp_path, tiny, privacy=privacy, training={"lr": 0.1, "batch_size": 10} | training),
        Canaries(count=100),
    )
    assert (rows["measured"] <= rows["exact_epsilon"]).all()
    assert (rows["measured_gaussian"] <= rows["exact_epsilon"]).all()
    assert (rows["delta"] == 1e-5).all()


def test_canary_clients_are_recognised(tmp_path: Path, tiny: dict[str, Any]) -> None:
    many = tiny["data"] | {"clients": 40, "samples_per_client": 5}
    run = finished(tmp_path, tiny, data=many)
    rows = found(run, Canaries(count=40, unit="client"))
    assert rows.loc["server", "measured"] > 1
    assert (rows["neighbours"] == "one client's updates zeroed").all()


def test_the_same_audit_writes_the_same_bytes_and_keeps_other_methods(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = finished(tmp_path, tiny)
    other = audit_canaries(run, Canaries(count=20), (0,)).found.set_column(1, "method", [["twins"] * 5])
    write_attacks(run.folder, other)
    folder = save(run, audit_canaries(run, Canaries(count=20), run.seeds()))
    first = [(folder / name).read_bytes() for name in ("scenario.yaml", "scores.parquet", "../attacks.parquet")]
    assert save(run, audit_canaries(run, Canaries(count=20), run.seeds())) == folder
    assert first == [(folder / name).read_bytes() for name in ("scenario.yaml", "scores.parquet", "../attacks.parquet")]
    written = read_attacks(run.folder)
    assert written is not None
    assert written["method"].to_pylist() == ["canaries"] * 5 + ["twins"] * 5
    scores = pd.read_parquet(folder / "scores.parquet")
    assert len(scores) == 20
    assert Scenario.load(folder / "scenario.yaml").digest() == folder.name.removeprefix("canaries-")
    assert FinishedRun.load(run.folder).run.scenario.data.canaries is None


def test_a_run_that_contains_canaries_is_audited_without_new_ones(tmp_path: Path, tiny: dict[str, Any]) -> None:
    planted = {"count": 60, "unit": "sample", "kind": "noise"}
    run = finished(tmp_path, tiny, data=tiny["data"] | {"canaries": planted})
    assert found(run, Canaries.model_validate(planted)).loc["server", "canaries"] == 60
    with pytest.raises(ScenarioError, match="must be 60 samples of kind noise, which the run contains already"):
        found(run, Canaries(count=61))


def test_divergence_with_canaries_is_an_error(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = finished(tmp_path, tiny, training={"lr": 0.05, "batch_size": 10})
    broken = run.run.scenario.override({"training.lr": 1e30})
    run.run.scenario = broken
    with pytest.raises(RunError, match="with canaries seed 0 diverges"):
        audit_canaries(run, Canaries(count=10), (0,))


LEDGER = pd.DataFrame(
    {
        "adversary": ["server", "server", "server", "eavesdropper"],
        "claimed_epsilon": [2.0, 9.0, float("inf"), 99.0],
        "delta": [1e-5, 1e-3, 1e-2, 1e-5],
        "unit": ["sample", "sample", "sample", "client"],
        "releases": [4, 1, 0, 1],
        "squared_mu": [0.5, 3.0, 50.0, 7.0],
        "exact_epsilon": [1.5, 8.0, 80.0, 70.0],
        "distribution": "gaussian",
    }
)


def test_bounds_are_compared_with_the_largest_claim_of_the_adversary() -> None:
    # Infinite claims, rows without a release, and other adversaries do not count.
    assert _claim_of(LEDGER, "server", "sample", None) == (9.0, 8.0, 1e-3)
    claimed, exact, delta = _claim_of(LEDGER, "server", "sample", 1e-5)
    assert (claimed, delta) == (None, 1e-5), "the claim is for delta 1e-3"
    assert exact == pytest.approx(float(exact_epsilon(3.0, 1e-5)))
    assert _claim_of(LEDGER, "server", "client", None)[0] is None, "the claim is for samples"
    assert _claim_of(LEDGER, "eavesdropper", "client", None)[0] == 99.0
    assert _claim_of(LEDGER.assign(distribution="laplace"), "server", "sample", 1e-5)[1] is None
    nothing = _claim_of(LEDGER.assign(claimed_epsilon=float("inf")), "server", "sample", None)
    assert (nothing[0], nothing[2]) == (float("inf"), 0.0)

"""Every algorithm of ours runs everywhere to the same bytes; what it cannot be combined with is refused by name."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import one_seed
from asyncfl.base.errors import ScenarioError
from asyncfl.base.files import checkpoint_file
from asyncfl.manual.parts import components
from asyncfl.scenario import Scenario
from asyncfl.simulation.checkpoint import Checkpoints, PausedError
from asyncfl.simulation.limits import memory_bytes
from asyncfl.simulation.workers import started_workers
from tests.algorithms.test_control_variate import assert_same
from tests.extras.live.conftest import SMALL, live
from tests.extras.live.test_identity import BUFFERED, LEAVING, LOSSY, WORLD, same

PATHS = [part.path for part in components() if part.path.startswith("algorithm.")]
KINDS = [path.removeprefix("algorithm.") for path in PATHS if path != "algorithm.fedavg"]
LINKS = {**WORLD, "uplink": {**WORLD["uplink"], **LOSSY}, **LEAVING}


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_file._key.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def description(kind: str, **more: Any) -> dict[str, Any]:
    return {**SMALL, "protocol": BUFFERED, "world": LINKS, "algorithm": {"kind": kind}, **more}


@pytest.mark.parametrize("kind", KINDS)
def test_workers_and_interruptions_change_no_byte(kind: str, tmp_path: Path) -> None:
    scenario = Scenario.read(description(kind, evaluation={"record": "digests", "checkpoint": 1}))
    whole = one_seed(scenario, 0)
    plain = one_seed(Scenario.read(description("fedavg", evaluation={"record": "digests", "checkpoint": 1})), 0)
    assert not whole.tables["rounds"].equals(plain.tables["rounds"])
    for until in (2, 4):
        with pytest.raises(PausedError):
            one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0, until))
    assert_same(one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0)), whole)
    with started_workers(2) as workers:
        assert_same(one_seed(scenario, 0, workers=workers), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_live_on_virtual_time_it_is_the_simulation(kind: str) -> None:
    same(live, description(kind))


@pytest.mark.parametrize("kind", ["scaffold", "dp_scaffold"])
def test_poisoned_controls_are_the_same_live(kind: str) -> None:
    attack = {"kind": "sign_flip", "factor": 2.0, "payloads": True}
    same(live, description(kind, threats={"attackers": 2, "attack": attack}))


@pytest.mark.parametrize("kind", ["scaffold", "dp_scaffold", "ditto"])
def test_live_with_noise_of_steps_it_is_the_simulation(kind: str) -> None:
    noise = {"example_clip": 1.0, "example_noise": 0.5}
    private = {"kind": "dp_sgd", "noise_multiplier": 0.5}
    same(live, description(kind, training={**SMALL.get("training", {}), **noise}, privacy=private))


@pytest.mark.parametrize(
    ("kind", "more", "setting"),
    [
        ("mifa", {"defence": {"rule": {"kind": "median"}}}, "another aggregation rule than the mean, or a detector"),
        (
            "ca2fl",
            {"protocol": {**BUFFERED, "aggregation": "mix"}},
            r"protocol.aggregation other than delta \(fedasync mixes models\)",
        ),
        ("scaffold", {"model": {**SMALL["model"], "personal": ["3.*"]}}, "model.personal"),
        ("feddyn", {"evaluation": {"audit": {}}}, "evaluation.audit"),
        ("scaffold", {"training": {"momentum": 0.9}}, "training.momentum"),
        ("fednova", {"training": {"momentum": 0.9}}, "training.momentum"),
        *(
            (
                kind,
                {"privacy": {"kind": "adaptive", "budgets": [5.0] * SMALL["data"]["clients"], "upload": "gradient"}},
                r"privacy.upload: gradient \(the mean of plain steps\)",
            )
            for kind in ("feddyn", "scaffold", "dp_scaffold")
        ),
    ],
)
def test_what_an_algorithm_cannot_be_combined_with_is_refused(kind: str, more: dict[str, Any], setting: str) -> None:
    with pytest.raises(ScenarioError, match=f"algorithm.kind: must be fedavg.* with {setting}, got {kind}") as found:
        Scenario.read(description(kind, **more))
    # What the message offers is allowed.
    offered = re.findall(r"\w+", str(found.value).split("must be ")[1].split(" with ")[0])
    for other in offered:
        if other != "or":
            Scenario.read(description(other, **more))
    assert kind not in offered


@pytest.mark.parametrize(
    ("more", "carried"),
    [
        ({"algorithm": {"kind": "scaffold"}}, "algorithm scaffold"),
        ({"training": {"state": "kept", "momentum": 0.9}}, "training.state: kept"),
        ({"model": {**SMALL["model"], "personal": ["3.*"]}}, "model.personal"),
    ],
)
def test_no_budget_is_promised_for_what_clients_carry_under_noise_of_steps(more: dict[str, Any], carried: str) -> None:
    """A client that drops out after its training sends no upload to count, and carries on what it has learned."""
    steps = {"example_clip": 1.0, "example_noise": 1.0, **more.get("training", {})}
    private = {"kind": "dp_sgd", "noise_multiplier": 1.0}
    settings = {**more, "training": steps, "privacy": private}
    Scenario.read(description("fedavg") | settings)
    settings["privacy"] = private | {"stop_at": {"epsilon": 9.0}}
    with pytest.raises(ScenarioError, match=rf"privacy.stop_at: must be null .*\({carried}\)"):
        Scenario.read(description("fedavg") | settings)


def test_a_server_that_uses_steps_alone_takes_any_rule_and_detector() -> None:
    more = {"defence": {"rule": {"kind": "median"}, "detector": {"kind": "safl"}, "strikes": {"threshold": 3}}}
    run = one_seed(Scenario.read(description("fedadam", **more)), 0)
    assert run.summary["seeds"]["0"]["fates"]["aggregated"] > 0


def test_steps_along_a_noisy_control_are_not_taken_for_forgeries() -> None:
    """A control is added to gradients after clipping, so that honest updates are longer than clipped steps allow."""
    skewed = {"kind": "dirichlet", "alpha": 0.1}
    more = {
        "data": {"dataset": "digits", "clients": 8, "samples_per_client": 40, "partition": skewed},
        "training": {"lr": 0.1, "batch_size": 10, "epochs": 3, "gradient_clip": 0.5},
        "privacy": {"kind": "local_gaussian", "epsilon": 3.0, "clip_norm": 0.5},
        "protocol": {"kind": "sync", "rounds": 8},
        "defence": {"detector": {"kind": "evidence"}, "strikes": {"threshold": 3}},
        "model": {"kind": "mlp"},
        "world": {},
    }
    run = one_seed(Scenario.read(description("dp_scaffold", **more)), 0)
    details = run.tables["events"].to_pandas().query("kind == 'flagged'").detail
    assert not details.str.contains("norm|pair").any(), details.tolist()


def test_clients_of_a_server_that_uses_steps_alone_may_have_personal_layers() -> None:
    model = {**SMALL["model"], "personal": ["3.*"]}
    run = one_seed(Scenario.read(description("fedyogi", model=model)), 0)
    assert np.isfinite(run.tables["rounds"].to_pandas()["train_loss"].iloc[-1])


PRIVATE: dict[str, Any] = {"kind": "dp_fedavg", "noise_multiplier": 1.0, "noise_at": "server"}


def public_rows(kind: str) -> Any:
    run = one_seed(Scenario.read(description(kind, protocol={"kind": "sync", "rounds": 3}, privacy=PRIVATE)), 0)
    ledger = run.tables["ledger"].to_pandas()
    return ledger[ledger.adversary == "public"].reset_index(drop=True)


def test_guarantees_of_published_models_survive_a_servers_use_of_noisy_steps() -> None:
    plain, adam = public_rows("fedavg"), public_rows("fedadam")
    assert len(plain)
    assert np.isfinite(plain.exact_epsilon).all()
    columns = ["holder", "flags", "provable", "exact_epsilon"]
    assert adam[columns].equals(plain[columns])


def test_guarantees_of_published_models_do_not_cover_a_servers_use_of_single_updates() -> None:
    plain, mifa = public_rows("fedavg"), public_rows("mifa")
    told = plain.provable > 0
    assert np.isfinite(plain.provable).all()
    assert np.isinf(mifa.provable[told]).all()


def test_the_servers_memory_of_all_clients_is_in_the_estimate() -> None:
    estimates = [memory_bytes(Scenario.read(description(kind))) for kind in ("fedavg", "mifa")]
    scenario = Scenario.read(description("mifa"))
    assert estimates[1] - estimates[0] == 4 * scenario.n_parameters * (scenario.data.clients + 1)

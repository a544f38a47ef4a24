"""Attacks on uploads of runs: choice of the upload, its noise, and the quality of the images."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import execute
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.extras.audit.finished_run import FinishedRun, HeldUpload
from asyncfl.extras.audit.reconstruction.attacker import Attacker
from asyncfl.extras.audit.reconstruction.image_reconstruction import ReconstructionSettings, reconstruct, write_images
from asyncfl.extras.audit.reconstruction.upload import choose_task, find_upload, repeat_upload, upload_at_epsilon
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.scenario import Scenario

TAPPED = {
    "data": {"dataset": "mnist", "clients": 3, "samples_per_client": 4, "source": "embedded", "test_samples": 20},
    "model": {"kind": "mlp", "hidden": [64]},
    "training": {"lr": 0.1, "batch_size": "full", "gradient_clip": 1.0},
    "protocol": {"kind": "sync", "rounds": 2},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5},
        "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6},
        "tap": {"uplink": True},
    },
    "evaluation": {"train_every": 0, "test_every": 0},
}
SAFL = {"kind": "local_gaussian", "epsilon": 60, "clip_norm": 1.0}


def made(folder: Path, **changes: Any) -> FinishedRun:
    """A finished run of `TAPPED` with those parts changed."""
    return FinishedRun.load(execute(Scenario.read({**TAPPED, **changes}), folder))


def held_in(run: FinishedRun) -> HeldUpload:
    return find_upload(run, 0, choose_task(run, 0, "server"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return made(tmp_path_factory.mktemp("runs") / "run", privacy=SAFL)


@pytest.fixture(scope="module")
def held(run: FinishedRun) -> HeldUpload:
    return find_upload(run, 0, choose_task(run, 0, "eavesdropper"))


# --- which upload --------------------------------------------------------------------------------------------------


def test_the_first_upload_is_chosen_unless_another_is_named(run: FinishedRun) -> None:
    tasks = run.run.events.query("kind == 'aggregated'")[["task", "client"]].sort_values("task")
    assert choose_task(run, 0, "eavesdropper") == tasks["task"].iloc[0]
    of_client = tasks[tasks["client"] == 2]["task"]
    assert choose_task(run, 0, "eavesdropper", client=2) == of_client.iloc[0]
    assert choose_task(run, 0, "server", task=int(of_client.iloc[1])) == of_client.iloc[1]


def test_a_missing_upload_is_an_error_that_names_the_setting(run: FinishedRun, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no upload of task 99 that the server collected from an honest client"):
        choose_task(run, 0, "eavesdropper", task=99)
    with pytest.raises(ScenarioError, match=r"--client: must be one of the run's clients \(0..2\), got 3"):
        choose_task(run, 0, "eavesdropper", client=3)
    untapped = made(tmp_path / "untapped", world={**TAPPED["world"], "tap": {"uplink": False}})
    with pytest.raises(RunError, match=r"caught no upload of any client in seed 0; set world.tap.uplink: true, lower"):
        choose_task(untapped, 0, "eavesdropper")
    assert choose_task(untapped, 0, "server") == choose_task(run, 0, "server")


def test_uploads_of_attackers_are_left_out(tmp_path: Path) -> None:
    attacked = made(tmp_path / "attacked", threats={"attackers": 2, "attack": {"kind": "sign_flip"}})
    honest, bad = (attacked.run.clients.query(f"{sign}attacker")["client"].tolist() for sign in ("~", ""))
    chosen = choose_task(attacked, 0, "eavesdropper")
    events = attacked.run.events
    assert events[events["task"] == chosen]["client"].unique().tolist() == honest
    with pytest.raises(RunError, match=f"no upload of client {bad[0]} that the server collected from an honest client"):
        choose_task(attacked, 0, "eavesdropper", client=bad[0])


def test_a_server_behind_a_shuffler_holds_no_upload(tmp_path: Path) -> None:
    adaptive = {"kind": "adaptive", "budgets": [50, 50, 50], "adjustment": "none", "shuffler": {"swaps": 2}}
    shuffled = made(tmp_path / "shuffled", privacy=adaptive)
    with pytest.raises(RunError, match="updates that the shuffler has mixed"):
        choose_task(shuffled, 0, "server")
    heard = find_upload(shuffled, 0, choose_task(shuffled, 0, "eavesdropper"))
    assert np.isfinite(upload_at_epsilon(heard, None).model).all()


# --- the same upload under other noise -------------------------------------------------------------------------------

SCHEMES = {
    "none": {},
    "nbafl": {"privacy": {"kind": "nbafl", "epsilon": 50, "clip_norm": 2.0}},
    "median": {"privacy": {"kind": "nbafl", "epsilon": 50}},
    "local_gaussian": {"privacy": SAFL},
    "epoch": {"privacy": {**SAFL, "noise": "epoch"}, "training": {**TAPPED["training"], "epochs": 2}},
    "dp_fedavg": {"privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0, "clip_norm": 0.05}},
    "mechanisms": {"privacy": {"kind": "mechanisms", "client": {"kind": "laplace", "epsilon": 5}}},
    "adaptive": {"privacy": {"kind": "adaptive", "budgets": [50, 50, 50], "adjustment": "none"}},
    "dp_sgd": {
        "privacy": {"kind": "dp_sgd", "noise_multiplier": 1.5},
        "training": {"lr": 0.1, "batch_size": "full", "example_clip": 1.0, "example_noise": 1.5},
    },
    # Each client has done two of three epochs at its deadline.
    "epoch, stopped": {
        "privacy": {**SAFL, "noise": "epoch"},
        "training": {**TAPPED["training"], "epochs": 3, "deadline_s": 1.0},
        "world": {**TAPPED["world"], "device": {"kind": "fixed", "s_per_sample": 0.1}},
    },
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_upload_is_repeated_exactly_and_under_other_noise(scheme: str, tmp_path: Path) -> None:
    held = held_in(made(tmp_path / "run", **SCHEMES[scheme]))
    path, sent = held.federation.path, upload_at_epsilon(held, None)
    again = repeat_upload(held, path.scheme, path.training, None, held.upload.contribution.epsilon)
    assert again.model.tobytes() == sent.model.tobytes() == held.sent.tobytes()
    assert again.std == sent.std
    assert held.assignment.epochs == (2 if scheme == "epoch, stopped" else None)
    clean, weak, strong = (upload_at_epsilon(held, epsilon) for epsilon in (math.inf, 100.0, 1.0))
    assert clean.std == 0
    assert 0 < weak.std < strong.std
    # The same stream: the noise of one is a multiple of that of the other, where it is added when training is over.
    one, other = weak.model - clean.model, strong.model - clean.model
    assert float(one @ other) / math.sqrt(float(one @ one) * float(other @ other)) > 0.99
    if scheme != "mechanisms":  # Laplace noise has its own spread
        assert np.std(other) == pytest.approx(strong.std, rel=0.05)


def test_compression_comes_after_the_noise(tmp_path: Path) -> None:
    held = held_in(made(tmp_path / "run", privacy=SAFL, compression={"kind": "quantised", "bits": 4}))
    assert upload_at_epsilon(held, 60.0).model.tobytes() == held.sent.tobytes()
    steps = np.unique(np.round((upload_at_epsilon(held, math.inf).model - held.assignment.base) * 1e6))
    assert len(steps) < 100


def test_noise_of_the_server_alone_hides_no_upload(tmp_path: Path) -> None:
    scheme = {"kind": "mechanisms", "server": {"kind": "gaussian", "epsilon": 5}}
    bare = held_in(made(tmp_path / "run", privacy=scheme))
    assert upload_at_epsilon(bare, math.inf).std == 0
    with pytest.raises(RunError, match=r"privacy\.client is null"):
        upload_at_epsilon(bare, 10.0)


# --- the attack -----------------------------------------------------------------------------------------------------


def test_images_of_one_step_are_reconstructed_and_noise_hides_them(held: HeldUpload) -> None:
    pictures = reconstruct(held, ReconstructionSettings(), [math.inf, 1e6, 1.0, None])
    assert pictures.method == "first_layer"
    assert (pictures.samples, pictures.steps) == (4, 1)
    clean, faint, noised, sent = pictures.levels
    assert clean.ssim.max() > 0.99
    assert clean.ssim.mean() > faint.ssim.mean() > noised.ssim.mean()
    assert noised.ssim.mean() < pictures.guess.ssim.mean()
    assert sent.noise_std == held.upload.release.std
    assert [level.epsilon for level in pictures.levels] == [math.inf, 1e6, 1.0, None]
    assert len(pictures.table) == 4


def test_true_images_are_those_of_the_client(held: HeldUpload) -> None:
    pictures = reconstruct(held, ReconstructionSettings(), [math.inf])
    images, _ = held.federation.data.client(held.assignment.client)
    unit = Attacker.of(held).pixels.to_unit(images)
    assert sorted(map(bytes, pictures.true)) == sorted(map(bytes, unit))
    assert pictures.true.min() == 0
    assert pictures.true.max() <= 1


def test_more_local_steps_spoil_descent_and_not_division(held: HeldUpload, tmp_path: Path) -> None:
    training = {"lr": 0.5, "batch_size": 1, "epochs": 20, "gradient_clip": 1.0}
    longer = held_in(made(tmp_path / "run", training=training))
    descent = ReconstructionSettings(method="cosine", steps=150)
    one, many = (reconstruct(each, descent, [math.inf]) for each in (held, longer))
    assert (one.steps, many.steps) == (1, 80)
    assert one.levels[0].ssim.mean() > many.levels[0].ssim.mean() + 0.2
    # A unit that is active for one image alone sums multiples of this image over all steps.
    assert reconstruct(longer, ReconstructionSettings(), [math.inf]).levels[0].ssim.mean() > 0.9


def test_each_descent_follows_the_distance_that_it_is_named_after(held: HeldUpload) -> None:
    cosine, squared = (
        reconstruct(held, ReconstructionSettings(method=method, steps=5), [math.inf]) for method in ("cosine", "l2")
    )
    assert not np.array_equal(cosine.levels[0].made, squared.levels[0].made)


def test_clipped_models_are_scaled_back(tmp_path: Path) -> None:
    # The norm of a fresh model is about 9: it is clipped to a fifth of that.
    clipped = held_in(made(tmp_path / "run", privacy={"kind": "nbafl", "epsilon": 1e30, "clip_norm": 2.0}))
    assert np.linalg.norm(clipped.sent) == pytest.approx(2.0, rel=1e-3)
    assert reconstruct(clipped, ReconstructionSettings(), [math.inf]).levels[0].ssim.max() > 0.9


def test_attacks_that_do_not_fit_the_network_are_refused() -> None:
    lenet = Scenario.read({**TAPPED, "model": {"kind": "lenet"}})
    with pytest.raises(ScenarioError, match=r"first_layer needs a network that begins with a dense layer .* lenet"):
        ReconstructionSettings(method="first_layer").check(lenet)
    with pytest.raises(ScenarioError, match=r"at most 1,000 parameters, this one has 215,370; raise it"):
        ReconstructionSettings(most_parameters=1000).check(lenet)
    assert ReconstructionSettings().check(lenet) == "cosine"
    assert ReconstructionSettings(method="labels", most_parameters=1000).check(lenet) == "labels"


def test_the_labels_method_writes_no_images(held: HeldUpload, tmp_path: Path) -> None:
    pictures = reconstruct(held, ReconstructionSettings(method="labels"), [math.inf])
    assert pictures.levels[0].labels_right > pictures.guess.labels_right
    for _ in range(2):  # into a folder that is made, and that is there
        written = write_images(pictures, "stand-ins", tmp_path / "out" / "deep")
        assert [path.name for path in written] == ["reconstruction.csv"]


@pytest.mark.parametrize(
    ("pixels", "labels", "changes", "message"),
    [
        (float, int, {}, r"data\.dataset: must hold images \(bytes\) to be reconstructed, \S.* holds none$"),
        (np.uint8, float, {}, r"data\.dataset: must hold classes: .* of each; a regression has none$"),
        (
            np.uint8,
            int,
            {"personal": ["1.bias"]},
            r"model\.personal: must be empty: .* whole models, which no client uploads",
        ),
        (np.uint8, int, {}, None),
    ],
)
def test_only_images_with_classes_and_without_personal_layers_can_be_reconstructed(
    pixels: type, labels: type, changes: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 6, 6)).astype(pixels)
    np.savez(tmp_path / "own.npz", x_train=images, y_train=(np.arange(40) % 3)[:, None].astype(labels))
    data = {"dataset": {"kind": "npz", "path": str(tmp_path / "own.npz")}, "clients": 3, "samples_per_client": 4}
    scenario = Scenario.read({**TAPPED, "data": data, "model": {**TAPPED["model"], **changes}})
    if message is None:
        assert ReconstructionSettings().check(scenario) == "first_layer"
        return
    with pytest.raises(ScenarioError, match=message):
        ReconstructionSettings().check(scenario)


OWN = Path(__file__).parents[3] / "privacy"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: dict[str, Any]) -> Any:
    monkeypatch.syspath_prepend(OWN)

    def held(kind: str) -> Any:
        scenario = Scenario.read({**tiny, "privacy": {"kind": f"own_scheme:{kind}"}})
        run = FinishedRun.load(execute(scenario, tmp_path / kind))
        return find_upload(run, 0, choose_task(run, 0, "server"))

    return held


def test_an_own_scheme_calibrates_its_noise(own: Any) -> None:
    held = own("Halving")
    made = upload_at_epsilon(held, 10.0)
    assert made.std == pytest.approx(2 * analytic_multiplier(10.0, 1e-5) * 0.5)
    bare = upload_at_epsilon(held, math.inf)
    assert bare.std == 0
    assert 0 < np.linalg.norm(bare.model - held.assignment.base) <= 0.5
    assert np.std(made.model - bare.model) == pytest.approx(made.std, rel=0.05)


def test_an_own_scheme_without_epsilon_is_an_error(own: Any) -> None:
    with pytest.raises(RunError, match=r"Deaf has no field epsilon and no method with_epsilon"):
        upload_at_epsilon(own("Deaf"), 10.0)

"""What audits and reconstructions of small runs come to, and their formulas, against a written list.

`python tests/audit/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import atexit
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asyncfl.api import execute, simulate
from asyncfl.audit.again import FinishedRun
from asyncfl.audit.canaries import audit_canaries
from asyncfl.audit.canary_bounds import write_bounds
from asyncfl.audit.membership import audit_membership, likelihood_ratio
from asyncfl.audit.reconstruction.attacker import pixel_range
from asyncfl.audit.reconstruction.first_layer import PixelRange, divided_images
from asyncfl.audit.reconstruction.inversion import Inversion
from asyncfl.audit.reconstruction.labels import leaked_labels, share_right, share_right_by_chance
from asyncfl.audit.reconstruction.overheard import chosen_task, overheard
from asyncfl.audit.reconstruction.pictures import Reconstruction, reconstruct
from asyncfl.audit.reconstruction.quality import matched, psnr_db, ssim
from asyncfl.audit.reconstruction.sheet import caption_of, level_name
from asyncfl.audit.shadows import ShadowPool, worlds
from asyncfl.data.canaries import Canaries
from asyncfl.data.spec import DataSpec
from asyncfl.learning import Layout, LeNet, Mlp
from asyncfl.scenario import Scenario
from tests.written import compare, sums, write

LIST = Path(__file__).with_name("numbers.json")
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 20, "source": "embedded", "test_samples": 600},
    "model": {"kind": "mlp", "hidden": [8]},
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 2},
    "protocol": {"kind": "sync", "rounds": 2},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5},
        "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6},
        "tap": {"uplink": True, "downlink": True, "packet_loss": 0.02},
    },
}
FEDAVG = {"kind": "dp_fedavg", "noise_multiplier": 2.0, "clip_norm": 0.5}
NBAFL = {"kind": "nbafl", "epsilon": 500}
STEPS = {"kind": "dp_sgd", "noise_multiplier": 1.0}
STEP_TRAINING = {"lr": 0.1, "batch_size": 10, "example_clip": 1.0, "example_noise": 1.0}
FEW = BASE["data"] | {"clients": 3, "samples_per_client": 4}
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "attacked": {"privacy": FEDAVG, "threats": {"attackers": 1, "attack": {"kind": "sign_flip"}}},
    "few": {"data": FEW, "training": {"lr": 0.1, "batch_size": "full"}, "privacy": NBAFL},
    "lenet": {
        "data": FEW, "model": {"kind": "lenet", "channels": [4], "hidden": [8]},
        "training": {"lr": 0.1, "batch_size": "full"},
    },
    "steps": {"privacy": STEPS, "training": STEP_TRAINING},
}  # fmt: skip
UNIT = PixelRange(np.zeros((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32))
WIDE = PixelRange(np.full((1, 1, 1), -0.5, np.float32), np.full((1, 1, 1), 2.5, np.float32))


@cache
def _folder() -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _run(name: str) -> FinishedRun:
    return FinishedRun.load(execute(Scenario.read({**BASE, **RUNS[name]}), Path(_folder(), name)))


def _membership(name: str, adversary: str) -> Any:
    audit = audit_membership(_run(name), (0,), adversary, clients=2, shadow_worlds=8)
    scores = {attack: [one.members, one.others] for attack, one in audit.scores[0].items()}
    return [audit.found.to_pylist(), scores]


def _canaries(name: str, canaries: Canaries, delta: float | None = None) -> Any:
    finished = FinishedRun.load(_run(name).folder)
    audit = audit_canaries(finished, canaries, (0,), delta)
    rows = [{key: one for key, one in row.items() if key != "run"} for row in audit.found.to_pylist()]
    measured = write_bounds(finished.run, audit)
    return [rows, sums(audit.scores), measured, sums(finished.run.tables["ledger"]), finished.run.summary["privacy"]]


def _pictures(name: str, how: Reconstruction, epsilons: tuple[float | None, ...]) -> Any:
    run = _run(name)
    made = reconstruct(overheard(run, 0, chosen_task(run, 0, "server")), how, epsilons)
    return [
        made.method, made.places, made.samples, made.steps, made.table.to_dict("records"), made.guess,
        [level.made for level in made.levels], caption_of(made, "somewhere"),
    ]  # fmt: skip


def _twins(**changes: Any) -> Any:
    run = simulate(Scenario.read({**BASE, **changes}))
    return [sums(run.tables["audit"]), sums(run.tables["ledger"]), run.summary["privacy"], run.summary["notes"]]


def _inverted(inversion: Inversion, model: Any, shape: tuple[int, ...], pixels: PixelRange) -> Any:
    generator = torch.Generator()
    generator.manual_seed(1)
    base = model.initial_parameters(shape, 5, generator)
    gradient = np.sin(np.arange(len(base), dtype=np.float32)) / 10
    return inversion.images(model, shape, 5, base, gradient, np.array([1, 3]), pixels, np.random.default_rng(0))


def _divided(noise_std: float, count: int, pixels: PixelRange) -> Any:
    random = np.random.default_rng(4)
    layout = Layout.of([("first", {"weight": (40, 9), "bias": (40,)}), ("last", {"weight": (3, 40)})])
    errors = random.normal(0, 0.3, (40, 3)) * (random.random((40, 3)) < 0.4)
    gradient = np.concatenate([(errors @ random.random((3, 9))).ravel(), errors.sum(1), np.zeros(120)])
    gradient += random.normal(0, 0.003, len(gradient))
    gradient[9] = math.nan
    return divided_images(gradient, layout.layers[0], (1, 3, 3), count, pixels, noise_std)


def _formulas() -> Iterator[tuple[str, Callable[[], Any]]]:
    for pixels in (UNIT, WIDE):
        for count in (1, 2, 3, 50):
            for std in (0.0, 0.003, 0.05, 0.4):
                yield f"divided {count} {std} {pixels.high.item()}", partial(_divided, std, count, pixels)
        for distance in ("l2", "cosine"):
            search = Inversion(distance, steps=9, starts=2, total_variation=0.3)  # type: ignore[arg-type]
            yield (
                f"inverted {distance} {pixels.high.item()}",
                partial(_inverted, search, Mlp(hidden=(6,)), (1, 4, 4), pixels),
            )
    search = Inversion(steps=5)
    yield "inverted by a convolution", partial(_inverted, search, LeNet(channels=(2,), hidden=(5,)), (1, 8, 8), UNIT)
    yield "pixels", lambda: [
        [pixel_range(DataSpec(dataset=name, scaling=scaling)).low, pixel_range(DataSpec(dataset=name)).high]
        for name in ("mnist", "cifar10") for scaling in ("standardised", "unit")
    ]  # fmt: skip
    layout = Layout.of([("a", {"weight": (4, 3), "bias": (4,)}), ("b", {"weight": (5, 4), "bias": (5,)})])
    gradient = np.cos(np.arange(41.0) * 1.7)
    for count in (1, 2, 5, 12):
        yield f"labels {count}", lambda n=count: leaked_labels(gradient, layout, n)
    yield "labels of nobody", lambda: leaked_labels(gradient, layout, 0)
    yield "labels of another network", lambda: leaked_labels(gradient[1:], layout, 2)
    true = np.array([0, 0, 1, 2, 2, 2])
    yield "right labels", lambda: [
        share_right(np.array([0, 2, 2, 4, 4, 4]), true), share_right(true, true), share_right(true[:0], true),
        share_right_by_chance(true, 10), share_right_by_chance(true, 3),
    ]  # fmt: skip
    random = np.random.default_rng(0)
    for side in (5, 6, 7, 8, 10, 11, 12):
        pair = random.random((2, 3, side, side + 1)).astype(np.float32)
        yield f"quality {side}", lambda p=pair: [psnr_db(*p), ssim(*p), ssim(p[0], p[0]), psnr_db(p[0], p[0])]
    many = random.random((7, 1, 8, 8)).astype(np.float32)
    yield "matched", lambda: matched(many[:4], many[[5, 2, 6, 0, 1]] * np.float32(0.9))
    yield "matched, other shapes", lambda: matched(many, many[:, :, 1:])
    shadows, included = random.normal(0, 1, (9, 6)), random.random((9, 6)) < 0.5
    included[:, 5] = [True] + [False] * 8
    yield "likelihood ratio", lambda: likelihood_ratio(np.linspace(-2, 3, 6), shadows, included)
    yield "likelihood ratio of nothing", lambda: likelihood_ratio(np.ones(6), shadows[:1], included[:1])
    pool = ShadowPool(np.zeros((9, 1)), np.zeros(9, np.int64), np.arange(9) < 4)
    yield "worlds", lambda: [world.astype(int).tolist() for world in worlds(pool, 7, np.random.default_rng(3))]
    yield "level names", lambda: [level_name(epsilon) for epsilon in (None, math.inf, 10_000.0, 0.5)]


def _audits() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, adversary in (("plain", "eavesdropper"), ("attacked", "server")):
        yield f"membership {name}", partial(_membership, name, adversary)
    yield "canaries", partial(_canaries, "plain", Canaries(count=40))
    yield "canaries, attacked", partial(_canaries, "attacked", Canaries(count=30, kind="noise"), 1e-3)
    yield "canary clients", partial(_canaries, "attacked", Canaries(count=4, unit="client"))
    yield "canaries of steps", partial(_canaries, "steps", Canaries(count=20))
    for method in ("first_layer", "cosine", "l2", "labels"):
        search = Inversion("l2" if method == "l2" else "cosine", steps=4)
        how = Reconstruction(method, images=3, inversion=search)  # type: ignore[arg-type]
        yield f"pictures by {method}", partial(_pictures, "few", how, (math.inf, None, 500.0))
    descent = Reconstruction(inversion=Inversion(steps=3))
    yield "pictures from a convolution", partial(_pictures, "lenet", descent, (math.inf,))
    yield "pictures of a clipped update", partial(_pictures, "attacked", Reconstruction(), (math.inf, None, 20.0))
    audit = {"audit": {"clients": 2, "twins": 4}}
    yield "twins", partial(_twins, privacy=NBAFL, evaluation=audit)
    yield "twins of updates", partial(_twins, privacy=FEDAVG, evaluation=audit)
    yield "twins of steps", partial(_twins, privacy=STEPS, training=STEP_TRAINING, evaluation=audit)


CALLS = dict([*_formulas(), *_audits()])


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=2e-4)


if __name__ == "__main__":
    write(LIST, CALLS)

"""Seeds that train are interrupted at random steps of the clock: what comes out at last is the same bytes."""

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncfl import Scenario
from asyncfl.api import execute
from asyncfl.base.files import checkpoint_file
from asyncfl.base.interrupt_signals import InterruptedBySignalError
from asyncfl.simulation.clock import Clock

pytestmark = pytest.mark.long

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "simulation" / "golden_runs.json").read_text(encoding="utf-8")
)
BASE = GOLDEN["scenario"] | {"seeds": [0], "evaluation": {"checkpoint": None}}
BUFFERED = {
    "kind": "buffered", "rounds": 12, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 6},
    "staleness": {"kind": "constant"},
}  # fmt: skip
AWAY = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 3.0}, "off_s": 1.0}
LOSS = {"kind": "independent", "probability": 0.1}
INTERRUPTS = 4
CASES: dict[str, dict[str, Any]] = {
    "lossy shared links, absences": {
        "protocol": BUFFERED,
        "world.uplink.server_bandwidth_bps": 1e6,
        "world.uplink.loss": LOSS,
        "world.downlink": {"bandwidth_bps": 1e6, "server_bandwidth_bps": 2e6, "loss": LOSS},
        "world.availability": AWAY,
        "evaluation.record": "digests",
    },
    "shared processors, clients that give up": {
        "protocol": BUFFERED,
        "world.processors": 2.0,
        "world.dropout_per_s": 0.2,
        "world.aggregate_s": 0.05,
        "evaluation.test_every": 1,
        "world.evaluate_s": 0.1,
        "world.evaluate_beside": True,
    },
    "few workers, leases": {
        "protocol": BUFFERED,
        "world.workers": 2,
        "world.turnaround_s": 0.05,
        "world.availability": AWAY,
        "world.failure_detection": {"kind": "lease", "seconds": 0.5},
    },
    "requests for scores": {
        "protocol": {**BUFFERED, "scoring": "serial"},
        "defence": {"detector": {"kind": "safl"}, "strikes": {}},
        "world.workers": 3,
        "world.uplink.loss": LOSS,
    },
    "personal layers, compression": {
        "model.hidden": [16, 8],
        "model.personal": ["5.*"],
        "protocol": BUFFERED,
        "compression": {"kind": "top_k", "share": 0.2},
        "world.availability": AWAY,
    },
    "budgets, a mixing node": {
        "privacy": {"kind": "adaptive", "budgets": [9] * 8, "shuffler": {"swaps": 3, "seconds": 0.5}},
    },
}


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run, but for wall times and the mark of the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("timing.json", ".asyncfl.json")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(autouse=True)
def as_a_person_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signals are handled as in a program in the foreground; the key of checkpoints is the test's own."""
    checkpoint_file._key.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {one: signal.signal(one, default) for one, default in defaults.items()}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_seed_interrupted_at_random_steps_ends_in_the_same_bytes(
    name: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario.read(BASE).override(CASES[name])
    execute(scenario, tmp_path / "undisturbed")
    chosen, step, interrupts, left = random.Random(name), Clock.step, 0, [0]

    def interrupted_step(clock: Clock) -> None:
        step(clock)
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(chosen.choice([signal.SIGINT, signal.SIGTERM]))

    monkeypatch.setattr(Clock, "step", interrupted_step)
    while True:
        left[0] = chosen.randint(1, 100) if interrupts < INTERRUPTS else 0
        try:
            execute(scenario, tmp_path / "run", workers=workers)
            break
        except InterruptedBySignalError:
            interrupts += 1
    assert interrupts == INTERRUPTS
    assert contents(tmp_path / "run") == contents(tmp_path / "undisturbed")

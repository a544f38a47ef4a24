"""A seed that is interrupted anywhere goes on from its checkpoint to the same bytes."""

import itertools
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from asyncfl import Scenario
from asyncfl.api import execute, one_seed
from asyncfl.base.errors import OutputError, ScenarioError
from asyncfl.base.files import checkpoint_file
from asyncfl.base.instrument import RowCallback
from asyncfl.base.interrupt_signals import InterruptedBySignalError
from asyncfl.cli import app
from asyncfl.results.storage import Run
from asyncfl.simulation import started_workers
from asyncfl.simulation.checkpoint import Checkpoints, PausedError
from asyncfl.simulation.clock import Clock

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_runs.json").read_text(encoding="utf-8"))
BASE = GOLDEN["scenario"] | {"seeds": [0], "evaluation": {"checkpoint": 1}}
BUFFERED = {
    "kind": "buffered", "rounds": 12, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 6},
    "staleness": {"kind": "constant"},
}  # fmt: skip
PERSONAL = {"model.hidden": [16, 8], "model.personal": ["5.*"]}
CASES: dict[str, dict[str, Any]] = {
    **{name: run["changes"] for name, run in GOLDEN["runs"].items()},
    "a rule with memory": {"defence.rule": {"kind": "centred_clipping"}},
    "a detector with memory": {"defence.detector": {"kind": "fldetector"}, "protocol.rounds": 12},
    "evidence": {
        "defence": {"detector": {"kind": "evidence"}, "root_samples": 100, "strikes": {}},
        "protocol": BUFFERED,
    },
    "personal layers in flight, recorded": {**PERSONAL, "protocol": BUFFERED, "evaluation.record": "digests"},
    "attackers of each round": {"threats": {"attack": {"kind": "alie"}, "attackers": 0.3, "selection": "per_round"}},
    "Poisson batches": {
        "privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0},
        "training.batches": "poisson",
        "training.example_clip": 1.0,
        "training.example_noise": 1.0,
    },
    "correlated noise": {
        "privacy": {
            "kind": "dp_ftrl",
            "noise_multiplier": 1.0,
            "factorisation": {"kind": "tree", "restart": 3, "complete": True},
        },
        "protocol": {**BUFFERED, "max_participations": 9},
    },
    "kept models": {"evaluation.keep": "best", "evaluation.test_every": 2},
    "convolutions behind pooling": {"model": {"kind": "lenet", "channels": [4, 6], "hidden": [16]}},
    "pairwise secure aggregation": {"protocol.secure_aggregation": {"kind": "pairwise", "threshold": 2}},
    "secure aggregation of a buffer": {
        "protocol": BUFFERED | {"secure_aggregation": {"kind": "lightsecagg", "threshold": 3, "colluders": 1}},
        "privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.1},
    },
}


def same(ours: Run, theirs: Run) -> bool:
    """Whether two runs agree in all files but `timing.json`."""
    assert ours.tables.keys() == theirs.tables.keys()
    for name, table in ours.tables.items():
        assert table.to_pandas().equals(theirs.tables[name].to_pandas()), name
    return (ours.summary, ours.models, ours.messages) == (theirs.summary, theirs.models, theirs.messages)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run, but for wall times and the mark of the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("timing.json", ".asyncfl.json")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_file._key.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if at % 2 else ()) for at, name in enumerate(CASES)]
)
def test_a_seed_that_pauses_again_and_again_ends_in_the_same_bytes(name: str, tmp_path: Path) -> None:
    scenario = Scenario.read(BASE).override(CASES[name])
    pauses, file = 0, tmp_path / "seed"
    for until in range(1, 200, 2):
        checkpoints = Checkpoints(file, scenario, 0, until)
        try:
            found = one_seed(scenario, 0, checkpoints=checkpoints)
            break
        except PausedError:
            pauses += 1
    assert pauses > 2
    assert same(found, one_seed(scenario, 0))


def test_workers_take_over_a_seed_that_began_here_and_hand_it_back(tmp_path: Path) -> None:
    scenario = Scenario.read(BASE).override({"protocol": BUFFERED})
    with pytest.raises(PausedError):
        one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0, 4))
    with started_workers(1) as workers, pytest.raises(PausedError):
        one_seed(scenario, 0, workers=workers, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0, 8))
    found = one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0))
    assert same(found, one_seed(scenario, 0))


def test_until_200_and_then_until_400_are_one_run(tmp_path: Path) -> None:
    scenario = Scenario.read({**BASE, "seeds": [0, 1]})
    folder, rows = tmp_path / "run", []
    execute(scenario, folder, until=2)
    assert not (folder / "summary.json").exists()
    execute(scenario, folder, until=4)
    execute(scenario, folder, [RowCallback(rows.append)], until=400)
    assert [(row["seed"], row["version"]) for row in rows] == [(seed, at) for seed in (0, 1) for at in range(7)]
    assert not [*folder.glob(".partial/**/*.checkpoint")]
    execute(scenario, tmp_path / "undisturbed")
    assert contents(folder) == contents(tmp_path / "undisturbed")


def test_a_seed_beyond_until_pauses_where_it_is(tmp_path: Path) -> None:
    scenario, path = paused(tmp_path)
    content = path.read_bytes()
    with pytest.raises(PausedError, match="seed 0 pauses at version 2 already"):
        one_seed(scenario, 0, checkpoints=Checkpoints(path, scenario, 0, 1))
    assert path.read_bytes() == content


def test_a_run_until_its_last_version_is_complete(tmp_path: Path) -> None:
    execute(Scenario.read(BASE), tmp_path / "run", until=BASE["protocol"]["rounds"])
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_run_does_not_pause_before_its_first_version(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="until: must be a version, at least 1, got 0"):
        execute(Scenario.read(BASE), tmp_path / "run", until=0)


def test_a_run_that_pauses_prints_nothing_but_json_lines(tmp_path: Path) -> None:
    file, arguments = tmp_path / "scenario.yaml", ["--out", str(tmp_path / "run"), "--until", "2"]
    file.write_text(json.dumps(BASE))
    found = CliRunner().invoke(app, ["run", str(file), "--json", *arguments], catch_exceptions=False)
    assert [json.loads(line)["row"]["version"] for line in found.stdout.splitlines()[1:]] == [0, 1, 2]
    assert "pauses at version 2" in " ".join(found.stderr.split())


INTERRUPTED = {
    "rounds": {},
    "buffered, shared links": {
        "protocol": BUFFERED,
        "world.uplink.server_bandwidth_bps": 1e5,
        "world.uplink.loss": {"kind": "independent", "probability": 0.1},
        "evaluation.record": "digests",
    },
}


@pytest.fixture
def as_a_person_starts_it() -> Iterator[None]:
    """Signals are handled as in a program in the foreground; in the background a shell has SIGINT ignored."""
    defaults = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {one: signal.signal(one, default) for one, default in defaults.items()}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("as_a_person_starts_it")
@pytest.mark.parametrize("name", INTERRUPTED)
def test_a_signal_between_any_two_steps_costs_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario.read(BASE).override({**INTERRUPTED[name], "evaluation.checkpoint": None})
    execute(scenario, tmp_path / "undisturbed")
    chosen, step, interrupts = random.Random(name), Clock.step, 0
    left = [0]

    def interrupted_step(clock: Clock) -> None:
        step(clock)
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(chosen.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))

    monkeypatch.setattr(Clock, "step", interrupted_step)
    for _ in range(200):
        left[0] = chosen.randint(1, 20)
        try:
            execute(scenario, tmp_path / "run")
            break
        except InterruptedBySignalError:
            interrupts += 1
            assert [*(tmp_path / "run").glob(".partial/*/seed-0.checkpoint")]
    assert interrupts > 3
    assert contents(tmp_path / "run") == contents(tmp_path / "undisturbed")


@pytest.mark.usefixtures("as_a_person_starts_it")
@pytest.mark.parametrize("place", ["asyncfl.api.SeedLedger", "asyncfl.results.storage.Run.write_to"])
def test_a_signal_after_the_last_version_costs_no_training(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario.read(BASE).override({"evaluation.checkpoint": None})
    execute(scenario, tmp_path / "undisturbed")
    with monkeypatch.context() as patched:
        patched.setattr(place, lambda *arguments: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(InterruptedBySignalError):
            execute(scenario, tmp_path / "run")

    def train_again(*arguments: Any) -> None:
        raise AssertionError("a task was trained again")

    monkeypatch.setattr("asyncfl.simulation.clients.TrainingClients.collect", train_again)
    execute(scenario, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "undisturbed")


def test_checkpoints_are_written_again_when_the_disk_has_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written, write = [], checkpoint_file.write_checkpoint

    def full_at_first(path: Path, header: Any, content: Any) -> None:
        written.append(header["version"])
        if header["version"] < 3:
            raise OutputError(f"cannot write {path}: No space left on device")
        write(path, header, content)

    monkeypatch.setattr("asyncfl.simulation.checkpoint.write_checkpoint", full_at_first)
    one_seed(Scenario.read(BASE), 0, checkpoints=Checkpoints(tmp_path / "seed", Scenario.read(BASE), 0))
    assert written == [1, 2, 3, 4, 5]
    assert (tmp_path / "seed").is_file()
    assert caplog.text.count("goes on without checkpoints") == caplog.text.count("are written again") == 1


def test_a_run_computed_again_can_pause_too(tmp_path: Path) -> None:
    file, arguments = tmp_path / "scenario.yaml", ["--out", str(tmp_path / "run")]
    file.write_text(json.dumps(BASE))
    CliRunner().invoke(app, ["run", str(file), *arguments], catch_exceptions=False)
    found = CliRunner().invoke(app, ["run", str(file), *arguments, "--force", "--until", "2"], catch_exceptions=False)
    assert "pauses at version 2" in " ".join(found.stdout.split())
    assert "written in" not in found.stdout


def test_a_paused_run_is_not_replaced_by_another(tmp_path: Path) -> None:
    scenario = Scenario.read(BASE)
    execute(scenario, tmp_path / "run", until=2)
    with pytest.raises(OutputError, match="it holds an unfinished run of another scenario; go on with it by"):
        execute(scenario.override({"training.lr": 0.2}), tmp_path / "run")
    execute(scenario.override({"training.lr": 0.2}), tmp_path / "run", force=True)


def test_the_digest_does_not_depend_on_checkpoints() -> None:
    assert len({Scenario.read(BASE).override({"evaluation.checkpoint": one}).digest() for one in (1, 7, None)}) == 1


def paused(tmp_path: Path) -> tuple[Scenario, Path]:
    """A scenario, and a checkpoint of its version 2."""
    scenario, path = Scenario.read(BASE), tmp_path / "seed-0.checkpoint"
    with pytest.raises(PausedError):
        one_seed(scenario, 0, checkpoints=Checkpoints(path, scenario, 0, 2))
    return scenario, path


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: content[:-100], "was not written by this account, or was damaged or edited since"),
        (lambda content: content.replace(b'"version": 2', b'"version": 3'), "was not written by this account"),
        (lambda content: b"", "cannot be read: it is no checkpoint"),
        (lambda content: b"[" * 9000, "cannot be read: it is no checkpoint"),
        (lambda content: b"[1]\n", "cannot be read: it is no checkpoint"),
        (
            lambda content: json.dumps({"mac": "\u00fc", "asyncfl": ""}).encode() + b"\n",
            "was not written by this account, or was damaged or edited since",
        ),
    ],
)
def test_a_damaged_or_foreign_checkpoint_is_refused_by_name(
    damage: Any, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scenario, path = paused(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert same(one_seed(scenario, 0, checkpoints=Checkpoints(path, scenario, 0)), one_seed(scenario, 0))
    assert f"seed 0 begins anew: {path} {said}" in caplog.text


def test_a_checkpoint_of_other_code_another_seed_or_scenario_is_refused_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, path = paused(tmp_path)
    other = scenario.override({"training.lr": 0.2})
    one_seed(other, 0, checkpoints=Checkpoints(path, other, 0))
    one_seed(scenario, 1, checkpoints=Checkpoints(path, scenario, 1))
    assert f"{path} is of another scenario" in caplog.text
    scenario, path = paused(tmp_path)
    one_seed(scenario, 1, checkpoints=Checkpoints(path, scenario, 1))
    assert f"{path} is of another seed: 0, not 1" in caplog.text
    scenario, path = paused(tmp_path)
    monkeypatch.setattr("asyncfl.base.files.checkpoint_file.package_digest", lambda: "0123456789abcdef")
    one_seed(scenario, 0, checkpoints=Checkpoints(path, scenario, 0))
    assert "was written by other code of asyncfl" in caplog.text


def test_a_checkpoint_that_cannot_be_written_costs_the_checkpoints_and_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scenario = Scenario.read(BASE)
    (tmp_path / "file").touch()
    found = one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "file" / "seed", scenario, 0))
    assert same(found, one_seed(scenario, 0))
    assert caplog.text.count("the run goes on without checkpoints: cannot write") == 1


def test_a_key_that_cannot_be_kept_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    scenario = Scenario.read(BASE)
    one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0))
    assert "cannot keep the key of checkpoints in /proc/none/asyncfl/checkpoint.key" in caplog.text


def test_audited_runs_do_not_pause(tmp_path: Path) -> None:
    scenario = Scenario.read(BASE).override({"evaluation.audit": {"clients": 1, "twins": 2}})
    with pytest.raises(ScenarioError, match=r"evaluation\.audit: must be null for a run that pauses"):
        execute(scenario, tmp_path / "run", until=1)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scenario, path = paused(tmp_path)
    key = tmp_path / "state" / "asyncfl" / "checkpoint.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    checkpoint_file._key.cache_clear()
    one_seed(scenario, 0, checkpoints=Checkpoints(path, scenario, 0))
    assert f"seed 0 begins anew: {key} must be a file that this account alone can read (chmod 600)" in caplog.text


def test_a_key_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state" / "asyncfl").mkdir(parents=True)
    os.mkfifo(tmp_path / "state" / "asyncfl" / "checkpoint.key", 0o600)
    scenario = Scenario.read(BASE)
    one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0))
    assert "checkpoint.key: it is no ordinary file" in caplog.text


def test_the_key_may_lie_where_a_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCFL_CHECKPOINT_KEY", str(tmp_path / "volume" / "key"))
    scenario, path = paused(tmp_path)
    assert (tmp_path / "volume" / "key").stat().st_size == checkpoint_file.KEY_BYTES
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another container"))
    checkpoint_file._key.cache_clear()
    assert Checkpoints(path, scenario, 0).path.is_file()
    assert checkpoint_file.read_checkpoint(path, {"seed": 0}) is not None


@pytest.mark.long
def test_a_run_that_is_killed_at_random_moments_ends_in_the_same_bytes(tmp_path: Path) -> None:
    context, moments, kills = multiprocessing.get_context("forkserver"), random.Random(0), 0
    context.set_forkserver_preload(["torch", "asyncfl.api"])
    for number, name in enumerate(itertools.cycle(CASES)):
        scenario = Scenario.read(BASE).override({"training.epochs": 8, **CASES[name]})
        undisturbed, folder = tmp_path / f"whole-{number}", tmp_path / f"run-{number}"
        # In a process like those that are killed: what it imports may take longer than the run.
        began = time.monotonic()
        whole = context.Process(target=execute, args=(scenario, undisturbed))
        whole.start()
        whole.join()
        assert whole.exitcode == 0
        took_s = time.monotonic() - began
        ended = None
        while ended is None:
            process = context.Process(target=execute, args=(scenario, folder))
            process.start()
            process.join(moments.uniform(0.2 * took_s, 1.2 * took_s))
            ended = process.exitcode
            if ended is None:
                process.kill()
                process.join()
                kills += 1
                took_s *= 1.05  # the machine may have become so slow that none gets to a checkpoint
        assert ended == 0
        assert contents(folder) == contents(undisturbed), name
        if kills >= 40:
            return

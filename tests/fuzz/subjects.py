"""What is mutated, and what is done with a mutant: one function per kind of input.

A subject is `(rng, folder) -> (change, call, nonsense)`: what was done to a sound input, what to call with it (it must
come back, or raise an AsyncflError), and whether it must be refused.
"""

import random
import shutil
from pathlib import Path
from typing import Any

from asyncfl.base.errors import AsyncflError
from asyncfl.base.files.yaml_text import read_text, read_yaml
from asyncfl.base.instrument import RowCallback
from asyncfl.experiments.cells import cells
from asyncfl.experiments.loading import load
from asyncfl.scenario import Scenario
from tests.fuzz import command_lines, files
from tests.fuzz.judging import Case, NonsenseError, Subject
from tests.fuzz.mutations import mutate, written

CORPUS = Path(__file__).parent / "corpus"


def scenarios(rng: random.Random, folder: Path) -> Case:
    """A scenario file: read, written, read again."""
    mutant = mutate(rng.choice(_trees("scenarios")), rng, _trees("scenarios"))
    file = _file(folder, mutant.text)

    def call() -> None:
        survives(Scenario.load(file))

    return Case(mutant.change, call, mutant.nonsense, mutant.text)


def runs(rng: random.Random, folder: Path) -> Case:
    """A scenario file that is also simulated."""
    from asyncfl.api import simulate
    from asyncfl.simulation.limits import Limits

    mutant = mutate(rng.choice(_trees("scenarios")), rng, _trees("scenarios"))
    file = _file(folder, mutant.text)
    return Case(
        mutant.change,
        lambda: simulate(Scenario.load(file), limits=Limits(hours=0.3 / 3600, gib=2)),
        mutant.nonsense,
        mutant.text,
    )


def experiments(rng: random.Random, folder: Path) -> Case:
    """An experiment file: read, and all its cells made at both scales."""
    mutant = mutate(rng.choice(_trees("experiments")), rng, _trees("experiments"))
    file = _file(folder, mutant.text)

    def call() -> None:
        experiment = load(file)
        for scale in ("quick", "full"):
            for cell in cells(experiment, scale)[:3]:
                survives(cell.scenario)

    return Case(mutant.change, call, False, mutant.text)


def options(rng: random.Random, folder: Path) -> Case:
    """A command line, called in this process."""
    if not (folder / "damaged").exists():
        command_lines.prepare(folder)
    words, change = command_lines.changed(rng)
    return Case(change, command_lines.calling(words, folder), False, " ".join(words))


def ties(rng: random.Random, folder: Path) -> Case:
    """A scenario of events at equal times: live on simulated time it has the events of the simulation."""
    from asyncfl.simulation import simulate_seed
    from tests.extras.live.conftest import live

    description = tied(rng)

    def call() -> None:
        scenario = Scenario.read(description)
        simulated, told = simulate_seed(scenario, 0), live(scenario, virtual=True)
        if str(simulated.events.to_pylist()) != str(told.events.to_pylist()) or simulated.fates != told.fates:
            raise NonsenseError("live on simulated time, it has other events than simulated")

    return Case("drawn", call, False, written(description))


def interrupts(rng: random.Random, folder: Path) -> Case:
    """A run that is interrupted after any version, perhaps again, and goes on: to the same bytes."""
    from asyncfl.api import execute

    place = folder / "interrupted"
    description = tied(rng)
    breaks = [rng.randint(0, 3) for _ in range(rng.randint(1, 3))]

    def call() -> None:
        scenario, left = Scenario.read(description), list(breaks)

        def progress(*_: object) -> None:
            if left and left[0] == 0:
                left.pop(0)
                raise KeyboardInterrupt
            if left:
                left[0] -= 1

        for name in ("whole", "broken"):
            shutil.rmtree(place / name, ignore_errors=True)
        execute(scenario, place / "whole")
        for _ in range(len(breaks) + 1):
            try:
                execute(scenario, place / "broken", [RowCallback(progress)])
                break
            except KeyboardInterrupt:
                continue
        found = [
            {file.name: file.read_bytes() for file in (place / name).glob("*.parquet")} for name in ("whole", "broken")
        ]
        if not found[0] or found[0] != found[1]:
            raise NonsenseError("interrupted, the run has other bytes")

    return Case(f"interrupted after {breaks}", call, False, written(description))


SUBJECTS: dict[str, Subject] = {
    "scenarios": scenarios,
    "runs": runs,
    "experiments": experiments,
    "options": options,
    "ties": ties,
    "interrupts": interrupts,
    "pictures": files.pictures,
    "tables": files.tables,
    "links": files.links,
}


def tied(rng: random.Random) -> dict[str, Any]:
    """Draw a small scenario of which many events fall at equal times."""

    def link() -> dict[str, Any]:
        lossy = {"loss": {"kind": "independent", "probability": 0.3}, "retransmission_timeout_s": 0.5}
        delay = {"kind": "lognormal", "median": 0.05, "sigma": 1.5}
        return {"latency_s": rng.choice([0.0, 0.5, 1.0, delay]), **rng.choice([{}, lossy])}

    world: dict[str, Any] = {"device": {"kind": "fixed", "s_per_sample": 0.1}, "downlink": link(), "uplink": link()}
    world |= rng.choice([{}, {"tap": {"downlink": True, "packet_loss": 0.1}}])
    night = {"kind": "diurnal", "from_h": 0.0, "hours": 12.0, "starts_at_h": rng.choice([0.0, 11.9995, 23.9995])}
    world |= rng.choice([{}, {"availability": night, "failure_detection": {"kind": "instant"}}])
    protocol: dict[str, Any] = rng.choice(
        [
            {"kind": "sync", "rounds": 3},
            {"kind": "sync", "rounds": 3, "open": {"kind": "deadline", "seconds": rng.choice([0.5, 1.0, 1.5])}},
            {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}},
            {"kind": "fedasync", "rounds": 8, "in_flight": 5},
        ]
    )
    data = {"dataset": "mnist", "clients": 6, "samples_per_client": 10, "source": "embedded", "test_samples": 10}
    return {
        "data": data,
        "model": {"kind": "mlp", "hidden": [2]},
        "training": {"lr": 0.1, "batch_size": 10, "epochs": 1},
        "world": world,
        "protocol": {**protocol, "time_limit_s": rng.choice([1.0, 2.0, 4.5, 40.0])},
    }


def survives(scenario: Scenario) -> None:
    """Nothing of a scenario is lost by writing and reading it. Raises NonsenseError."""
    try:
        again = Scenario.read(read_text(scenario.to_yaml()))
    except AsyncflError as error:
        raise NonsenseError(f"what was accepted is refused when it is read again: {error}") from error
    if again.digest() != scenario.digest():
        raise NonsenseError("what was accepted is another scenario when it is read again")


_cache: dict[str, list[Any]] = {}


def _trees(name: str) -> list[Any]:
    if name not in _cache:
        corpus = sorted((CORPUS / name).glob("*.yaml"))
        trees = [read_yaml(file) for file in corpus]
        if name == "scenarios":  # with every field, too
            trees += [read_text(Scenario.load(file).to_yaml()) for file in corpus]
        _cache[name] = trees
    return _cache[name]


def _file(folder: Path, text: str) -> Path:
    file = folder / "mutant.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    return file

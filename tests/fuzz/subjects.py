"""What is mutated, and what is done with a mutant: one function per kind of input.

A subject is `(rng, folder) -> (change, call, nonsense)`: what was done to a sound input, what to call with it (it must
come back, or raise an AsyncflError), and whether it must be refused.
"""

import random
from pathlib import Path
from typing import Any

from asyncfl.base.errors import AsyncflError
from asyncfl.base.files.yaml_text import read_text, read_yaml
from asyncfl.experiments.cells import cells
from asyncfl.experiments.loading import load
from asyncfl.scenario import Scenario
from tests.fuzz import command_lines
from tests.fuzz.judging import Case, NonsenseError, Subject
from tests.fuzz.mutations import mutate

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
    from asyncfl.federation.limits import Limits

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


SUBJECTS: dict[str, Subject] = {"scenarios": scenarios, "runs": runs, "experiments": experiments, "options": options}


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
        files = sorted((CORPUS / name).glob("*.yaml"))
        trees = [read_yaml(file) for file in files]
        if name == "scenarios":  # with every field, too
            trees += [read_text(Scenario.load(file).to_yaml()) for file in files]
        _cache[name] = trees
    return _cache[name]


def _file(folder: Path, text: str) -> Path:
    file = folder / "mutant.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    return file

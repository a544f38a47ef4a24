"""Which finished run is taken for that of a scenario, while the program's fields and defaults change."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest

from asyncfl.api import execute
from asyncfl.base.defaults import DefaultSince, fields_apart
from asyncfl.base.errors import OutputError, ScenarioError
from asyncfl.base.files.own_folder import MARK
from asyncfl.base.quantities import MeasuredIn
from asyncfl.extras.audit.finished_run import FinishedRun
from asyncfl.learning import Training
from asyncfl.results.storage import Run, RunFolder
from asyncfl.scenario import ADDED_SINCE_0_1, Scenario


class _WithField(Training):
    __module__ = "asyncfl.learning.training"

    warm_up: Annotated[int, MeasuredIn("steps")] = 0


class WithField(Scenario):
    """The scenario of a later version, with one more field."""

    __module__ = "asyncfl.scenario"

    training: _WithField = _WithField()


class _NewDefault(Training):
    __module__ = "asyncfl.learning.training"

    lr: Annotated[float, DefaultSince(2), MeasuredIn("factor")] = 0.5


class NewDefault(Scenario):
    """The scenario of a later version, with another default."""

    __module__ = "asyncfl.scenario"

    training: _NewDefault = _NewDefault()


class _OldDefault(Training):
    __module__ = "asyncfl.learning.training"

    lr: Annotated[float, DefaultSince(3), MeasuredIn("factor")] = Training.model_fields["lr"].default


class OldDefault(Scenario):
    """The scenario of a version after that, with the first default again."""

    __module__ = "asyncfl.scenario"

    training: _OldDefault = _OldDefault()


@pytest.fixture
def plain(tiny: dict[str, Any]) -> dict[str, Any]:
    """A scenario that rests on the default of `training.lr`."""
    return {**tiny, "training": {"batch_size": 10}}


def test_a_field_that_is_added_or_removed_renames_no_run(plain: dict[str, Any]) -> None:
    assert WithField.read(plain).digest() == Scenario.read(plain).digest()
    used = {**plain, "training": {"batch_size": 10, "warm_up": 3}}
    assert WithField.read(used).digest() != Scenario.read(plain).digest()


def test_a_finished_run_is_that_of_a_version_with_one_more_field(plain: dict[str, Any], tmp_path: Path) -> None:
    execute(plain, tmp_path / "run", seed_cache=tmp_path / "seeds")
    assert RunFolder(tmp_path / "run", WithField.read(plain)).is_whole()
    written = (tmp_path / "run" / "summary.json").stat().st_mtime_ns
    execute(WithField.read(plain), tmp_path / "run")
    assert (tmp_path / "run" / "summary.json").stat().st_mtime_ns == written


def test_a_finished_run_is_not_that_of_a_version_with_another_default(plain: dict[str, Any], tmp_path: Path) -> None:
    execute(plain, tmp_path / "run", seed_cache=tmp_path / "seeds")
    for version in (NewDefault, OldDefault):
        later = version.read(plain)
        assert not RunFolder(tmp_path / "run", later).is_whole()
        with pytest.raises(OutputError, match="another scenario"):
            execute(later, tmp_path / "run")
    old = Run.load(tmp_path / "run").rounds.test_loss
    execute(NewDefault.read(plain), tmp_path / "run", force=True, seed_cache=tmp_path / "seeds")
    assert Run.load(tmp_path / "run").rounds.test_loss.iloc[-1] != old.iloc[-1]


def test_a_value_that_is_given_names_a_run_by_itself(plain: dict[str, Any]) -> None:
    first = {**plain, "training": {"batch_size": 10, "lr": Training.model_fields["lr"].default}}
    names = [version.read(one).digest() for version in (NewDefault, OldDefault) for one in (plain, first)]
    # The old value, given to the version whose default is another, is no default; with the old default it is one.
    assert len({Scenario.read(plain).digest(), *names}) == 4
    assert names[2] == names[3]


def test_a_default_that_was_given_is_a_default(plain: dict[str, Any]) -> None:
    given = Scenario.read(plain)
    stated = Scenario.read(given.resolved())
    assert given.digest() == stated.digest()
    assert Scenario.read({**plain, "world": dict(reversed(plain["world"].items()))}).digest() == given.digest()


def test_a_count_and_a_share_are_different_runs(plain: dict[str, Any]) -> None:
    def name(attackers: float) -> str:
        threats = {"attack": {"kind": "label_flip"}, "attackers": attackers}
        return Scenario.read({**plain, "threats": threats}).digest()

    assert name(1) != name(1.0)


def as_version_0_1(folder: Path) -> None:
    """Name a finished run as versions up to 0.1 did: by all fields of its scenario."""
    scenario = Run.load(folder).scenario
    described = scenario.resolved()
    del described["evaluation"]["checkpoint"]
    del described["algorithm"]  # added since
    described["training"]["local_steps"] = described["training"].pop("gradient_step")  # its name then
    for name, kind, fields in ADDED_SINCE_0_1:
        for field in fields if kind in ("", described[name].get("kind")) else ():
            described[name].pop(field, None)
    named = scenario._digest_of({"scenario": described})
    assert named != scenario.digest()
    for file, field in ((folder / "summary.json", "hash"), (folder / MARK, "scenario")):
        written = json.loads(file.read_text())
        written.pop("sha256", None)
        file.write_text(json.dumps({**written, field: named}))


def test_a_run_of_an_older_version_is_known_by_its_older_name(plain: dict[str, Any], tmp_path: Path) -> None:
    folder = execute(plain, tmp_path / "run")
    as_version_0_1(folder)
    scenario = Scenario.read(plain)
    assert Run.load(folder).summary["hash"] != scenario.digest()
    assert FinishedRun.load(folder).run.scenario == Run.load(folder).scenario
    assert RunFolder(folder, scenario).is_whole()
    assert not RunFolder(folder, scenario.override({"training.lr": 0.2})).is_whole()
    execute(plain, folder, force=True)
    assert Run.load(folder).summary["hash"] == scenario.digest()


def test_the_older_name_of_a_run_is_that_of_version_0_1(tiny: dict[str, Any]) -> None:
    assert Scenario.read(tiny).is_named(NAME_IN_0_1)
    assert not Scenario.read({**tiny, "seeds": 2}).is_named(NAME_IN_0_1)


NAME_IN_0_1 = "bcd2d1cda9f9f81c"
"""Name of the run of `tiny` in version 0.1. A field that is added since makes older names unknown: delete the test."""


PRINTED = {"gradient_step": "printed", "batch_size": 1, "gradient_clip": 1.0}


def with_former_name(folder: Path) -> None:
    """Rewrite the scenario of a run as earlier versions did."""
    file = folder / "scenario.yaml"
    text = file.read_text()
    assert "  gradient_step: printed\n" in text
    file.write_text(text.replace("gradient_step", "local_steps"))
    mark = json.loads((folder / MARK).read_text())
    mark.pop("sha256", None)
    (folder / MARK).write_text(json.dumps(mark))


def test_a_run_that_was_written_before_a_field_was_renamed_is_read(tiny: dict[str, Any], tmp_path: Path) -> None:
    described = {**tiny, "training": PRINTED}
    folder = execute(described, tmp_path / "run")
    with_former_name(folder)
    assert Run.load(folder).scenario == Scenario.read(described).settled()
    assert RunFolder(folder, Scenario.read(described)).is_whole()
    assert RunFolder(folder, Scenario.read(tiny)).difference().count("gradient_step") == 1
    assert Scenario.load(folder / "scenario.yaml", recorded=True).training.gradient_step == "printed"


def test_a_run_keeps_its_name_when_a_field_is_renamed(tiny: dict[str, Any]) -> None:
    described = fields_apart(Scenario.read({**tiny, "training": PRINTED}).settled())
    assert described["training"]["local_steps"] == "printed"


def test_a_new_file_with_a_former_name_is_told_the_current_one(tiny: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=r"training.local_steps: is no field; it is called gradient_step now"):
        Scenario.read({**tiny, "training": {**PRINTED, "local_steps": "printed"}})

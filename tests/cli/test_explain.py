"""`asyncfl explain` and `asyncfl init` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from asyncfl.cli import app
from asyncfl.files.yaml_text import read_yaml
from asyncfl.manual.starter import STARTERS
from asyncfl.scenario import Scenario

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("no_own_module_stays")


@pytest.fixture
def asyncfl(program: Any) -> Any:
    """`program`, by its name."""
    return program


def test_explain_tells_a_field_within_80_columns(asyncfl: Any) -> None:
    status, out, _ = asyncfl("explain", "defence.rule.geometric_median.smoothing")
    assert status == 0
    assert out == (
        "defence.rule.geometric_median.smoothing\n\n"
        "nu: distances below it count as it, > 0, in units of the updates.\n\n"
        "type      number\nunit      L2 norm\nrange     > 0\ndefault   1e-06\n"
        "source    Pillutla, Kakade, Harchaoui 2022, algorithm 2\n\n"
        "Example\n\n  defence:\n    rule: {kind: geometric_median, smoothing: 1.0e-06}\n\n"
        "  asyncfl run scenario.yaml \\\n    --set defence.rule.kind=geometric_median \\\n"
        "    --set defence.rule.smoothing=1.0e-06\n"
    )


@pytest.mark.parametrize("name", ["defence.detector.spectral", "privacy.epsilon", "world", "scenario", "defence.rule"])
def test_explain_keeps_to_80_columns(asyncfl: Any, name: str) -> None:
    status, out, _ = asyncfl("explain", name)
    assert status == 0
    assert [line for line in out.splitlines() if len(line) > 80 and "--set" not in line] == []


def test_explain_as_json_has_all_fields(asyncfl: Any) -> None:
    status, out, _ = asyncfl("explain", "krum", "--json")
    (told,) = json.loads(out)
    assert status == 0
    assert told["class"] == "asyncfl.defences.krum.Krum"
    assert told["source"] == "Blanchard et al. 2017, section 4, squared distances"
    assert [field["name"].split(".")[-1] for field in told["fields"]] == [
        "byzantine", "expected_share", "pre", "neighbours",
    ]  # fmt: skip


def test_explain_tells_a_component_of_a_users_own(asyncfl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    status, out, _ = asyncfl("explain", "my_components:LinearStaleness")
    assert status == 0
    assert "class     my_components.LinearStaleness" in out
    assert "staleness: {kind: 'my_components:LinearStaleness'}" in out
    (told,) = json.loads(asyncfl("explain", "my_components:LinearStaleness", "--json")[1])
    (field,) = told["fields"]
    assert field["range"] == ">= 1"
    assert "staleness: {kind: 'my_components:LinearStaleness', lifetime: 10}" in field["example"]


def test_explain_ends_with_2_and_the_nearest_name(asyncfl: Any) -> None:
    status, out, err = asyncfl("explain", "defence.detector.spectal")
    assert (status, out) == (2, "")
    assert err == (
        "asyncfl: there is no field, section or component defence.detector.spectal; did you mean "
        "defence.detector.spectral?\n"
    )


def test_the_shell_completes_names() -> None:
    command: Any = typer.main.get_command(app)
    (name,) = [one for one in command.commands["explain"].params if one.name == "name"]
    completed = [one.value for one in name.shell_complete(None, "defence.rule.kr")]
    assert completed[:2] == ["defence.rule.krum", "defence.rule.krum.byzantine"]


def test_init_writes_a_scenario_that_runs_and_its_schema(asyncfl: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    assert asyncfl("init", file, "--kind", "own-data")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asyncfl.schema.json", "mine.yaml", "my_data.py"]
    assert file.read_text().startswith("# yaml-language-server: $schema=asyncfl.schema.json\n")
    run = ("run", file, "--set", "protocol.rounds=1", "--out", tmp_path / "run", "--quiet")
    status, out, _ = asyncfl(*run)
    assert status == 0
    assert "data: my_data:MyData" in out
    text = (tmp_path / "asyncfl.schema.json").read_text()
    assert text.startswith('{\n "$defs": {\n  "')
    schema = json.loads(text)
    jsonschema.Draft202012Validator(schema).validate(read_yaml(file))


@pytest.mark.parametrize(("name", "kind"), [("my_data.py", "own-data"), ("asyncfl.schema.json", "sync")])
def test_init_refuses_a_scenario_by_the_name_of_what_it_writes_beside_it(
    asyncfl: Any, tmp_path: Path, name: str, kind: str
) -> None:
    status, _, err = asyncfl("init", tmp_path / name, "--kind", kind)
    assert status == 2
    assert f"{name}: this name belongs to a file that is written beside the scenario" in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_init_writes_through_no_link_that_leads_nowhere(asyncfl: Any, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").symlink_to(tmp_path / "gone.yaml")
    status, _, err = asyncfl("init", tmp_path / "s.yaml")
    assert status == 2
    assert "exists already" in err
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_init_overwrites_nothing(asyncfl: Any, tmp_path: Path) -> None:
    (tmp_path / "my_data.py").write_text("mine")
    status, _, err = asyncfl("init", tmp_path / "s.yaml", "--kind", "own-data")
    assert status == 2
    assert "my_data.py: exists already" in err
    assert [path.name for path in tmp_path.iterdir()] == ["my_data.py"]
    assert "cannot write" in asyncfl("init", tmp_path / ("x" * 300))[2]
    message = "--kind: must be one of sync, buffered, dp, attack, own-data, got 'bufered'; did you mean buffered?"
    assert message in asyncfl("init", tmp_path / "s.yaml", "--kind", "bufered")[2]
    assert ", ".join(STARTERS) in asyncfl("init", "--help")[1]


def test_the_schema_takes_scenarios_of_every_paper() -> None:
    check = jsonschema.Draft202012Validator(Scenario.model_json_schema())
    folders = sorted((ROOT / "workflow" / "experiments").iterdir())
    files = [max(folder.glob("*.yaml")) for folder in folders] + [ROOT / "examples" / "my_scenario.yaml"]
    read = {path.name: read_yaml(path) for path in files}
    scenarios = {name: told.get("scenario", told) for name, told in read.items()}
    faults = {name: [error.message for error in check.iter_errors(told)] for name, told in scenarios.items()}
    assert {name: found for name, found in faults.items() if found} == {}

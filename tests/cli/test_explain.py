"""`asyncfl explain`, `asyncfl init` and `asyncfl schema`."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.cli import app
from asyncfl.manual.starter import STARTERS

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("no_own_module_stays")


def test_explain_prints_the_facts_of_a_field_and_an_example(program: Any) -> None:
    status, out, _ = program("explain", "defence.rule.geometric_median.smoothing")
    assert status == 0
    assert out.startswith("defence.rule.geometric_median.smoothing\n\n")
    facts = dict(re.findall(r"^(type|unit|range|default|source) +(.+)$", out, flags=re.MULTILINE))
    source = "Pillutla, Kakade, Harchaoui 2022, algorithm 2"
    assert facts == {"type": "number", "unit": "L2 norm", "range": "> 0", "default": "1e-06", "source": source}
    assert "rule: {kind: geometric_median, smoothing: 1.0e-06}" in out


@pytest.mark.parametrize("name", ["defence.detector.evidence", "privacy.epsilon", "world", "scenario", "defence.rule"])
def test_explain_keeps_to_80_columns(program: Any, name: str) -> None:
    status, out, _ = program("explain", name)
    assert status == 0
    assert [line for line in out.splitlines() if len(line) > 80 and "--set" not in line] == []


def test_explain_describes_an_own_component(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    status, out, _ = program("explain", "my_components:LinearStaleness")
    assert status == 0
    assert "class     my_components.LinearStaleness" in out
    assert "staleness: {kind: 'my_components:LinearStaleness'}" in out
    (found,) = json.loads(program("explain", "my_components:LinearStaleness", "--json")[1])
    (field,) = found["fields"]
    assert field["range"] == ">= 1"
    assert "staleness: {kind: 'my_components:LinearStaleness', lifetime: 10}" in field["example"]


def test_an_unknown_name_is_answered_with_the_nearest(refused: Any) -> None:
    assert "did you mean defence.detector.evidence?" in refused("explain", "defence.detector.evidense")


def test_an_empty_name_is_no_symbol(program: Any) -> None:
    """The glossary has rows without a symbol."""
    assert program("explain", "")[1] == program("explain")[1]


def test_the_shell_completes_names() -> None:
    command: Any = typer.main.get_command(app)
    (name,) = [one for one in command.commands["explain"].params if one.name == "name"]
    completed = [one.value for one in name.shell_complete(None, "defence.rule.kr")]
    assert completed[:2] == ["defence.rule.krum", "defence.rule.krum.byzantine"]


def test_init_writes_a_scenario_that_runs_and_its_schema(program: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    assert program("init", file, "--kind", "own-data")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asyncfl.schema.json", "mine.yaml", "my_data.py"]
    assert file.read_text().startswith("# yaml-language-server: $schema=asyncfl.schema.json\n")
    run = ("run", file, "--set", "protocol.rounds=1", "--out", tmp_path / "run", "--quiet")
    status, out, _ = program(*run)
    assert status == 0
    assert "data: my_data:MyData" in out
    text = (tmp_path / "asyncfl.schema.json").read_text()
    assert text.startswith('{\n "$defs": {\n  "')
    schema = json.loads(text)
    jsonschema.Draft202012Validator(schema).validate(read_yaml(file))


def test_init_refuses_names_of_its_other_files_and_dangling_links(refused: Any, tmp_path: Path) -> None:
    for name, kind in (("my_data.py", "own-data"), ("asyncfl.schema.json", "sync")):
        taken = f"{name}: this name belongs to a file that is written beside the scenario"
        assert taken in refused("init", tmp_path / name, "--kind", kind)
    (tmp_path / "s.yaml").symlink_to(tmp_path / "gone.yaml")
    assert "it exists already" in refused("init", tmp_path / "s.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_init_overwrites_no_file(program: Any, refused: Any, tmp_path: Path) -> None:
    (tmp_path / "my_data.py").write_text("mine")
    assert "my_data.py: it exists already" in refused("init", tmp_path / "s.yaml", "--kind", "own-data")
    assert [path.name for path in tmp_path.iterdir()] == ["my_data.py"]
    assert "cannot write" in program("init", tmp_path / ("x" * 300))[2]
    assert program("init", tmp_path / "s.yaml", "--kind", "bufered")[0] == 2
    assert program("init", tmp_path / "s.yaml", "--kind", "own-data", "--force")[0] == 0
    assert (tmp_path / "my_data.py").read_text() != "mine"


@pytest.mark.parametrize("kind", STARTERS)
def test_init_offers_each_starter(program: Any, tmp_path: Path, kind: str) -> None:
    assert program("init", tmp_path / "s.yaml", "--kind", kind)[0] == 0


def test_schema_prints_the_json_schema(program: Any) -> None:
    assert json.loads(program("schema")[1])["title"] == "Scenario"


def test_a_symbol_of_a_paper_leads_to_its_field(program: Any) -> None:
    status, told, _ = program("explain", "L")
    assert status == 0
    assert "privacy.exposures" in told
    status, told, _ = program("explain", "sigma_U", "--json")
    assert [row["paper"] for row in json.loads(told)] == ["NbAFL", "Adaptive budgets"]
    assert "did you mean" in program("explain", "sigma_UU")[2] or "sections are" in program("explain", "sigma_UU")[2]


@pytest.mark.parametrize("name", ["rounds.staleness_mean", "staleness_mean"])
def test_a_column_is_explained_with_its_table_and_unit(program: Any, name: str) -> None:
    told = "staleness_mean (versions), column of rounds.parquet: Mean staleness of the aggregated updates."
    assert " ".join(program("explain", name)[1].split()) == told
    (found,) = json.loads(program("explain", name, "--json")[1])
    assert (found["file"], found["name"], found["unit"]) == ("rounds.parquet", "staleness_mean", "versions")


def test_a_column_is_not_found_in_another_table(refused: Any) -> None:
    name = "clients.staleness_mean"
    assert f"there is no field, section or component {name}" in refused("explain", name)


def test_a_name_of_a_column_and_of_several_fields_leads_to_all_of_them(program: Any) -> None:
    told = " ".join(program("explain", "epsilon")[1].split())
    assert "epsilon, column of audit.parquet" in told
    assert re.search(r"In a scenario, epsilon may be .*privacy\.dp_sgd\.epsilon, .*privacy\.nbafl\.epsilon", told)


def test_of_several_fields_of_one_name_the_least_deep_is_explained(program: Any) -> None:
    status, told, _ = program("explain", "attack")
    assert status == 0
    assert told.startswith("threats.attack")
    assert "In a scenario, attack may be threats.attack, threats.attack.adaptive.attack." in " ".join(told.split())

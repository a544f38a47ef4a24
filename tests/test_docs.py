"""README and written pages: examples run, named files and links exist, sizes stay readable."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

from asyncfl.base.tables import LedgerTable, SpendingTable, columns_of
from asyncfl.cli import app
from asyncfl.manual.symbols import glossary_text
from asyncfl.protocol.events import SCHEMA, Kind
from asyncfl.protocol.messages import Fate

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_first_minute_prints_what_the_readme_shows(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASYNCFL_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    (console,) = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    shown = {text.split("\n")[0]: text.split() for text in console.split("$ ")[1:]}
    for command, words in shown.items():
        arguments = [word for word in command.split() if word not in {"asyncfl", "--open"}]
        if "results/runs/" in command:
            (run,) = (tmp_path / "results" / "runs").iterdir()
            arguments = ["view", str(run.relative_to(tmp_path))]
        status, out, _ = program(*arguments)
        assert status == 0, command
        # The clock and the counts are the same on every machine; losses, sizes and seconds of computing are not.
        fixed = re.findall(
            r"\d+\.\d s  |  40  |all versions published|scenario\.yaml|asyncfl\.schema\.json|\.html: ", out
        )
        assert fixed, out
        assert [text.strip() for text in fixed if text.strip() not in " ".join(words)] == []


def test_the_python_example_of_the_readme_runs(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program("init", "scenario.yaml")
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.split()[:4] == ["version", "time_s", "test_accuracy", "staleness_mean"]


def test_readme_and_changelog_stay_short() -> None:
    assert len(README.splitlines()) <= 150
    assert [line for line in README.splitlines() if len(line) > 120] == []
    releases = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert [text.splitlines()[0] for text in releases if len(text.splitlines()) > 80] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: path.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {ROOT / name for name in re.findall(r"`((?:asyncfl|workflow|benchmarks|docs|tests)/[\w/.]*)`", text)}
    linked = {
        ROOT / name for name in re.findall(r"\]\(([\w/.-]+)[)#]", text) if page.parent == ROOT
    }  # the site checks docs
    assert [str(path) for path in sorted(named | linked) if not path.exists()] == []


def test_no_page_of_the_site_links_to_a_file_outside_of_it() -> None:
    """Such a link works in the repository and leads nowhere on the site."""
    site = ROOT / "docs"
    leaving = [
        (page.name, link)
        for page in [*site.glob("*.md"), *site.glob("findings/*.md")]
        for link in re.findall(r"\]\(([\w/.-]+)[)#]", page.read_text(encoding="utf-8"))
        if not (page.parent / link).resolve().is_relative_to(site)
    ]
    assert leaving == []


def shown_commands() -> list[str]:
    """Command lines of asyncfl in the code blocks of all pages, without comments and prompts."""
    blocks = "\n".join(
        line.strip() for path in WRITTEN for line in path.read_text(encoding="utf-8").splitlines() if line[:1] in " $a"
    )
    return sorted(set(re.findall(r"^(?:\$ )?(asyncfl [^#\n]+)", blocks, flags=re.M)))


@pytest.mark.parametrize("line", shown_commands())
def test_commands_that_pages_show_exist_with_their_options(line: str) -> None:
    command: Any = get_command(app)
    # `asyncfl live scenario.yaml` is short for `asyncfl live here scenario.yaml`.
    for word in line.replace("live scenario", "live here scenario").split()[1:]:
        if word.startswith("-"):
            options = {option for parameter in command.params for option in parameter.opts}
            assert word.partition("=")[0] in options, f"{line}: no option {word}"
        elif isinstance(command, TyperGroup) and word in command.commands:
            command = command.commands[word]


def test_links_of_the_readme_to_headings_lead_to_headings() -> None:
    for page, anchor in re.findall(r"\]\((docs/[\w.-]+)#([\w-]+)\)", README):
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), flags=re.M)
        assert anchor in {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f'version = "{citation["version"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)


def test_the_page_of_tables_names_every_kind_of_event_fate_and_column() -> None:
    named = set(re.findall(r"`([\w]+)`", (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")))
    expected = {*map(str, Kind), *map(str, Fate), *SCHEMA.names, *columns_of(LedgerTable), *columns_of(SpendingTable)}
    assert expected - named == set()


def test_the_glossary_names_fields_and_code_that_exist() -> None:
    rows = re.findall(r"^\|(.+)\|$", glossary_text(), flags=re.M)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    code = [name for row in cells for name in re.findall(r"`([\w.]+)`", row[3])]
    home, missing = "", []
    for name in code:
        # A bare name stands in the module of the one before it.
        full = name if "." in name else f"{home}.{name}"
        home = full.rpartition(".")[0]
        if not _exists(full):
            missing.append(full)
    assert len(code) > 30
    assert missing == []


def _exists(name: str) -> bool:
    """Whether `package.module.Class.attribute`, below asyncfl, can be imported."""
    found: object = import_module("asyncfl")
    path = "asyncfl"
    for part in name.split("."):
        path = f"{path}.{part}"
        try:
            found = import_module(path)
        except ImportError:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, part, None)
    return True

"""The guides to components of one's own do what they say: their classes and their scenarios run."""

import re
from pathlib import Path

import pytest

from asyncfl import Run, simulate
from asyncfl.base.files.yaml_text import read_text
from asyncfl.scenario import Scenario

DOCS = Path(__file__).parents[1] / "docs"


def _run(page: str, module: str, folder: Path, more: str = "") -> Run:
    """The first scenario of a page at two versions, with the classes of the page in a module of the user's own."""
    text = (DOCS / page).read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    scenarios = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    (folder / f"{module}.py").write_text("\n".join(code), encoding="utf-8")
    description = read_text(scenarios[0])
    if more:
        description |= read_text(next(one for one in scenarios if more in one))
    scenario = Scenario.read(description)
    return simulate(scenario.override({"protocol.rounds": 2, "data.samples_per_client": 10}))


@pytest.fixture(autouse=True)
def _importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))


def test_an_attack_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-attack.md", "my_attacks", tmp_path)
    assert run.clients["malicious_uploads"].sum() > 0


def test_a_rule_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-defence.md", "my_rules", tmp_path)
    assert run.rounds["participants"].iloc[1:].tolist() == [10, 10]


def test_a_detector_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-defence.md", "my_rules", tmp_path, more="my_rules:Longest")
    assert (run.rounds["detector_longest"].iloc[1:] > 0).all()


def test_a_privacy_scheme_of_ones_own(tmp_path: Path) -> None:
    run = _run("own-privacy.md", "my_privacy", tmp_path)
    held = run.ledger.query("holder == 'client' and adversary == 'server'")
    assert held["provable"].max() < 50
    assert held["measured"].max() <= held["provable"].max()

from pathlib import Path

import pytest

import asyncfl.experiments
from asyncfl.experiments import code
from asyncfl.experiments.code import STEPS, step_digest

EXPERIMENTS = Path(asyncfl.experiments.__file__).parent


def reached(step):
    roots = frozenset(f"asyncfl.experiments.{name}" for name in STEPS[step])
    return code._reached(roots, None, inside=code.INSIDE)


@pytest.mark.parametrize("package", ["figures", "claims"])
def test_an_analysis_depends_on_every_kind_of_figure_and_claim(package):
    kinds = {f"asyncfl.experiments.{package}.{path.stem}" for path in (EXPERIMENTS / package).glob("[a-z]*.py")}
    assert kinds <= reached("analysis")


def test_a_step_depends_only_on_modules_that_it_uses():
    assert "asyncfl.base.figure_style" in reached("analysis")
    assert "asyncfl.audit.reconstruction.inversion" in reached("attacks")
    assert not [name for name in reached("analysis") if "audit" in name]
    assert not [
        name
        for name in reached("analysis")
        if name.startswith(("asyncfl.experiments.site", "asyncfl.experiments.report"))
    ]
    assert len({step_digest(step) for step in STEPS}) == len(STEPS)


def test_the_report_is_made_anew_where_a_template_is_edited(monkeypatch, tmp_path):
    before = {step: step_digest(step) for step in STEPS}
    (tmp_path / "templates").mkdir()
    (tmp_path / "program").mkdir()
    monkeypatch.setattr(code, "files", lambda package: tmp_path)
    after = {step: step_digest(step) for step in STEPS}
    assert [step for step in STEPS if before[step] != after[step]] == ["pages", "report"]

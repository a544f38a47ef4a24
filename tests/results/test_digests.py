from pathlib import Path

import pytest

import asyncfl.analysis
from asyncfl.experiment import code
from asyncfl.results import STEPS, step_digest

ANALYSIS = Path(asyncfl.analysis.__file__).parent


def reached(step):
    return code._reached(frozenset(STEPS[step]), None, inside=("asyncfl.analysis", "asyncfl.audit", "asyncfl.results"))


@pytest.mark.parametrize(("step", "package"), [("figures", "figures"), ("verdicts", "claims")])
def test_a_step_depends_on_every_kind_that_it_finds_by_type(step, package):
    kinds = {f"asyncfl.analysis.{package}.{path.stem}" for path in (ANALYSIS / package).glob("[a-z]*.py")}
    assert len(kinds) >= 8
    assert kinds <= reached(step)


def test_a_step_depends_on_nothing_that_it_does_not_use():
    assert "asyncfl.analysis.style" in reached("figures")
    assert not [name for name in reached("tables") | reached("verdicts") if "style" in name or "figures" in name]
    assert "asyncfl.audit.reconstruction.inversion" in reached("pictures")
    assert not [name for name in reached("tables") | reached("figures") if "audit" in name]
    assert len({step_digest(step) for step in STEPS}) == len(STEPS)

"""Digests of the code that results depend on."""

import ast
from pathlib import Path

import pytest

import asyncfl.experiments
from asyncfl.experiments import code
from asyncfl.experiments.code import STEPS, code_digest, step_digest
from asyncfl.scenario import Scenario

PLAIN = {"protocol": {"kind": "sync", "rounds": 2}, "data": {"source": "embedded"}}
PRIVATE = {**PLAIN, "privacy": {"kind": "nbafl", "epsilon": 6}}


@pytest.fixture
def edited(monkeypatch):
    """edited(module, old, new): the digest of a scenario as if that module's source were changed, of which alone it is
    read anew."""
    parse, source = ast.parse, code._source

    def digest_with(description, module="", old="", new=""):
        def parse_edited(text, *rest, **more):
            assert old in text
            return parse(text.replace(old, new), *rest, **more)

        def source_edited(name):
            with monkeypatch.context() as changed:
                changed.setattr(ast, "parse", parse_edited)
                return source.__wrapped__(name)

        with monkeypatch.context() as changed:
            if module:
                of_module = source_edited(module)
                changed.setattr(code, "_source", lambda name: of_module if name == module else source(name))
                changed.setattr(code, "_reached", code._reached.__wrapped__)
            changed.setattr(code, "_digest", code._digest.__wrapped__)
            return code_digest(Scenario.read(description))

    return digest_with


def test_core_code_counts(edited):
    assert edited(PLAIN, "asyncfl.base.streams", "<< 64", "<< 65") != edited(PLAIN)


def test_docstrings_and_comments_do_not(edited):
    assert edited(PLAIN, "asyncfl.base.streams", "the only source of random generators.", "Changed.") == edited(PLAIN)


def test_a_component_counts_where_the_scenario_names_it(edited):
    change = ("asyncfl.privacy.schemes.nbafl", "NORM_GROWTH_WORTH_A_NOTE = 2.0", "NORM_GROWTH_WORTH_A_NOTE = 3.0")
    assert edited(PRIVATE, *change) != edited(PRIVATE)
    assert edited(PLAIN, *change) == edited(PLAIN)


def test_a_new_name_in_a_list_of_components_does_not_count(edited):
    change = (
        "asyncfl.privacy",
        "from asyncfl.privacy.schemes.none import NoPrivacy",
        "from asyncfl.privacy.schemes.none import NoPrivacy\nfrom asyncfl.privacy.scheme import Status",
    )
    assert edited(PLAIN, *change) == edited(PLAIN)


def test_the_analysis_is_no_part_of_a_run():
    reached = code._reached(frozenset([code.ROOT]), frozenset())
    assert "asyncfl.simulation.driver" in reached
    assert not [name for name in reached if name.startswith(("asyncfl.experiments", "asyncfl.cli."))]


def test_modules_beside_a_users_component_count(tmp_path, monkeypatch):
    (tmp_path / "own_helped.py").write_text(
        "from asyncfl.privacy import NoPrivacy\nfrom own_helper import KIND\n\n"
        "class Mine(NoPrivacy):\n    kind: str = KIND\n"
    )
    helper = tmp_path / "own_helper.py"
    helper.write_text("KIND = 'own_helped:Mine'\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = Scenario.read({**PLAIN, "privacy": {"kind": "own_helped:Mine"}})
    before = code_digest(own), own.digest()
    helper.write_text("KIND = 'own_helped:' + 'Mine'\n")
    assert code_digest(own) != before[0]
    assert own.digest() != before[1]


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
    assert "asyncfl.audit.reconstruction.attacker" in reached("attacks")
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
    assert [step for step in STEPS if before[step] != after[step]] == ["report"]

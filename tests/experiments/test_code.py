"""Digests of the code that results depend on."""

import json
import sys
import threading
from pathlib import Path

import pytest

import asyncfl.experiments
from asyncfl.api import simulate
from asyncfl.experiments import code, definitions
from asyncfl.experiments.code import STEPS, code_digest, modules_reached, step_digest
from asyncfl.experiments.definitions import WHOLE, Name, reached
from asyncfl.experiments.plan import make_plan
from asyncfl.scenario import Scenario

PLAIN = {"protocol": {"kind": "sync", "rounds": 2}, "data": {"source": "embedded"}}
PRIVATE = {**PLAIN, "privacy": {"kind": "nbafl", "epsilon": 6}}
BUFFERED = {
    **PLAIN,
    "protocol": {"kind": "buffered", "rounds": 2, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}},
}
ATTACKED = {**PLAIN, "threats": {"attack": {"kind": "sign_flip"}, "attackers": 2}}
HIDDEN = {
    **PLAIN,
    "threats": {"attack": {"kind": "adaptive", "attack": {"kind": "sign_flip"}}, "attackers": 2},
}
DEFENDED = {**ATTACKED, "defence": {"rule": {"kind": "median"}, "detector": {"kind": "safl"}}}
KINDS = {
    "plain": PLAIN,
    "private": PRIVATE,
    "buffered": BUFFERED,
    "attacked": ATTACKED,
    "hidden": HIDDEN,
    "defended": DEFENDED,
}


@pytest.fixture
def edit(monkeypatch):
    """edit({module: (old, new), ...}): from now on digests are taken as if these sources were so changed."""
    sources, texts = {}, {}
    known_source, known_definition = definitions.source_of, definitions.definition

    def change(edits):
        for module, (old, new) in edits.items():
            text = texts.get(module) or definitions.read_source(module)
            assert old in text
            texts[module] = text.replace(old, new, 1)
        with monkeypatch.context() as reading:
            reading.setattr(definitions, "read_source", texts.get)
            sources.update({module: known_source.__wrapped__(module) for module in edits})
        monkeypatch.setattr(definitions, "source_of", lambda name: sources.get(name) or known_source(name))
        monkeypatch.setattr(definitions, "definition", define)
        forget()

    def define(name):  # of other modules as before: names in them stand for the same
        return (known_definition.__wrapped__ if name.module in sources else known_definition)(name)

    def forget():
        for cached in (definitions.resolved, definitions.is_component, definitions.reached, code._of_package):
            cached.cache_clear()

    yield change
    monkeypatch.undo()
    forget()


def digests():
    return {name: code_digest(Scenario.read(described)) for name, described in KINDS.items()}


@pytest.fixture
def changed_by(edit):
    """changed_by(edits): names of the scenarios whose digest changes."""

    def changed(edits):
        before = digests()
        edit(edits)
        return {name for name, digest in digests().items() if digest != before[name]}

    return changed


LINE = "    private_line: ClassVar[int] = 1\n"


def in_class(name, line=LINE):
    """An edit that adds a line to the end of a class that has a field `kind`."""
    return f'Literal["{name}"] = "{name}"\n', f'Literal["{name}"] = "{name}"\n{line}'


@pytest.mark.parametrize(
    ("module", "kind", "runs"),
    [
        ("threats.alie", "alie", set()),
        ("threats.sign_flip", "sign_flip", {"attacked", "hidden", "defended"}),
        ("threats.composite", "adaptive", {"hidden"}),
        ("threats.composite", "combined", set()),
        ("protocol.staleness", "hinge", set()),
        ("protocol.staleness", "polynomial", {"buffered"}),
        ("privacy.schemes.nbafl", "nbafl", {"private"}),
        ("defences.median", "median", {"defended"}),
        ("defences.krum", "krum", set()),
        ("defences.safl", "safl", {"defended"}),
        ("data.concept", "restyled", set()),
        ("learning.models.lenet", "lenet", set()),
        ("learning.models.mlp", "mlp", set(KINDS)),
    ],
)
def test_an_edit_of_a_component_counts_where_a_scenario_holds_it(changed_by, module, kind, runs):
    assert changed_by({f"asyncfl.{module}": in_class(kind)}) == runs


def test_core_code_counts(changed_by):
    assert changed_by({"asyncfl.base.streams": ("<< 64", "<< 65")}) == set(KINDS)


def test_docstrings_and_comments_do_not_count(changed_by):
    text = "the only source of random generators."
    assert changed_by({"asyncfl.base.streams": (text, "Changed.")}) == set()


def test_a_helper_counts_where_a_component_uses_it(changed_by):
    change = "NORM_GROWTH_WORTH_A_NOTE = 2.0", "NORM_GROWTH_WORTH_A_NOTE = 3.0"
    assert changed_by({"asyncfl.privacy.schemes.nbafl": change}) == {"private"}


NEW_STALENESS = '''
class StepStaleness(Staleness):
    """Weight 1 or 0."""

    kind: Literal["step"] = "step"

    def weight(self, staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.where(staleness > LAST, 0.0, 1.0)


LAST = 3


def staleness_weights('''


def test_a_new_staleness_and_its_entry_in_the_choice_make_no_run_due(edit):
    before = digests()
    edit({"asyncfl.protocol.staleness": ("\ndef staleness_weights(", NEW_STALENESS)})
    edit(
        {
            "asyncfl.protocol.staleness": (
                "        ConstantStaleness,\n",
                "        StepStaleness,\n        ConstantStaleness,\n",
            )
        }
    )
    assert Name("asyncfl.protocol.staleness", "LAST") in reached(Name("asyncfl.protocol.staleness", "StepStaleness"))
    assert digests() == before


def test_a_new_attack_makes_no_run_due(changed_by):
    entry = "POISONING = (", "from asyncfl.threats.shout import Shout\n\nPOISONING = (Shout,"
    export = "from asyncfl.threats.spread", "from asyncfl.threats.shout import Shout\nfrom asyncfl.threats.spread"
    assert changed_by({"asyncfl.threats.composite": entry, "asyncfl.threats": export}) == set()


@pytest.mark.parametrize(
    ("edits", "due"),
    [
        ({"asyncfl.threats.alie": in_class("alie")}, 0),
        ({"asyncfl.protocol.staleness": ("\ndef staleness_weights(", NEW_STALENESS)}, 0),
        ({"asyncfl.experiments.figures.heatmap": ("\nclass ", "\nSIZE = 3\n\n\nclass ")}, 0),
        ({"asyncfl.protocol.staleness": in_class("polynomial")}, 2),
    ],
    ids=["unused attack", "new staleness", "figure", "used staleness"],
)
def test_a_plan_computes_only_the_runs_whose_code_changed(write, described, tmp_path, edit, edits, due):
    protocols = {
        "sync": {},
        "buffered": {"protocol.kind": "fedbuff", "protocol.dispatch.in_flight": 3, "protocol.buffer": 2},
    }
    figure = {"kind": "final", "x": "privacy.epsilon", "panels": "protocols"}
    described |= {"variants": {"protocols": protocols}, "axes": {"privacy.epsilon": [50, 60]}, "figure": figure}
    described |= {"quick": {"protocol.rounds": 2}, "claims": []}
    folder = write(described).parents[1]
    plan = make_plan(folder, "quick", results=tmp_path)
    for digest, own in plan.codes.items():
        place = tmp_path / "runs" / digest
        place.mkdir(parents=True)
        (place / "summary.json").write_text("{}")
        (place / "code.json").write_text(json.dumps({"own": own, "job": own}))
    edit(edits)
    jobs = make_plan(folder, "quick", results=tmp_path).jobs
    assert sum(len(job.digests) for job in jobs if not job.on_disk) == due
    assert sum(len(job.digests) for job in jobs) == 4


def test_names_are_followed_through_modules_packages_and_aliases():
    used = {f"{one.module.removeprefix('asyncfl.')}:{one.name}" for one in reached(Name("asyncfl.threats.ipm", "Ipm"))}
    assert {"threats.informed:Informed", "threats.attack:Attack", "base.component:Component"} <= used


def test_a_component_is_not_used_by_what_only_lists_it_types_it_or_defaults_to_it():
    core = reached(Name("asyncfl.api", WHOLE))
    assert Name("asyncfl.scenario", "Scenario") in core
    listed = {"Alie", "SignFlip", "Combined", "Nbafl", "NoPrivacy", "Mlp", "Lenet", "Strikes", "Krum", "HingeStaleness"}
    assert not [one for one in core if one.name in listed]
    assert Name("asyncfl.threats.lying_evaluator", "LyingEvaluator") in core, "attackers_lie uses it without naming it"


def test_the_analysis_is_no_part_of_a_run():
    modules = {one.module for one in reached(Name("asyncfl.api", WHOLE))}
    assert "asyncfl.simulation.driver" in modules
    assert not [name for name in modules if name.startswith(("asyncfl.experiments", "asyncfl.cli."))]


@pytest.mark.parametrize("changes", [HIDDEN, {**PRIVATE, **BUFFERED}, DEFENDED], ids=["hidden", "buffered", "defended"])
def test_all_functions_that_a_run_calls_are_part_of_its_code(changes):
    small = {"data": {"source": "embedded", "clients": 12, "samples_per_client": 12, "test_samples": 20}}
    scenario = Scenario.read({**changes, **small, "model": {"kind": "mlp", "hidden": [4]}})
    simulate(scenario)  # imports what is imported late
    called = set()

    def note(frame, event, argument):
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        simulate(scenario)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    parts = frozenset().union(*map(reached, code._roots(scenario.settled())))
    ran = {Name(*of) for function in called if (of := _definition_of(function)) is not None}
    assert Name("asyncfl.simulation.simulate", "simulate_seed") in ran
    assert not ran - parts


def _definition_of(function):
    package = Path(asyncfl.experiments.__file__).parents[1]
    file, name = Path(function.co_filename), function.co_qualname.partition(".")[0]
    if not file.is_relative_to(package) or name.startswith("<"):
        return None
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts), name


def test_code_of_this_package_that_a_users_component_uses_counts(tmp_path, monkeypatch, edit):
    (tmp_path / "own_built_on.py").write_text(
        "from asyncfl.defences import Rule\nfrom asyncfl.defences.geometric_median import GeometricMedian\n\n"
        "class Mine(Rule):\n    kind: str = 'own_built_on:Mine'\n\n"
        "    def combine(self, *given):\n        return GeometricMedian().combine(*given)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    scenario = Scenario.read({**PLAIN, "defence": {"rule": {"kind": "own_built_on:Mine"}}})
    before = code_digest(scenario)
    edit({"asyncfl.defences.bulyan": in_class("bulyan")})
    assert code_digest(scenario) == before
    edit({"asyncfl.defences.geometric_median": in_class("geometric_median")})
    assert code_digest(scenario) != before


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


def modules_of(step):
    return modules_reached(frozenset(f"asyncfl.experiments.{name}" for name in STEPS[step]))


@pytest.mark.parametrize("package", ["figures", "claims"])
def test_an_analysis_depends_on_every_kind_of_figure_and_claim(package):
    kinds = {f"asyncfl.experiments.{package}.{path.stem}" for path in (EXPERIMENTS / package).glob("[a-z]*.py")}
    assert kinds <= modules_of("analysis")


def test_a_step_depends_only_on_modules_that_it_uses():
    assert "asyncfl.results.figure_style" in modules_of("analysis")
    assert "asyncfl.extras.audit.reconstruction.attacker" in modules_of("attacks")
    assert not [name for name in modules_of("analysis") if "audit" in name]
    assert not [
        name
        for name in modules_of("analysis")
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

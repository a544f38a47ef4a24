"""What names stand for."""

import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.manual.explanation import find, known_paths
from asyncfl.manual.parts import Part


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("defence.rule.krum.byzantine", "defence.rule.krum.byzantine"),
        ("defence.rule.byzantine", "defence.rule.krum.byzantine"),
        ("defence.detector.evidence", "defence.detector.evidence"),
        ("krum", "defence.rule.krum"),
        ("MultiKrum", "defence.rule.multi_krum"),
        ("lr", "training.lr"),
        ("world.uplink.latency_s.lognormal.sigma", "world.uplink.latency_s.lognormal.sigma"),
        ("threats.attack.combined.attacks.0.label_flip", "threats.attack.combined.attacks.label_flip"),
        ("privacy.stop_at.adversary", "privacy.nbafl.stop_at.adversary"),
        ("scenario", ""),
    ],
)
def test_a_name_leads_to_its_place(name: str, path: str) -> None:
    assert [entry.path for entry in find(name)] == [path]


def test_a_path_on_which_kinds_differ_leads_to_each_of_them() -> None:
    assert [entry.path for entry in find("privacy.epsilon")] == [
        "privacy.nbafl.epsilon",
        "privacy.local_gaussian.epsilon",
        "privacy.dp_sgd.epsilon",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("defence.rule.krumm", "there is no field, section or component defence.rule.krumm; did you mean "
         "defence.rule.krum?"),
        ("evidnce", "there is no field, section or component evidnce; did you mean evidence?"),
        ("adaptive", "adaptive may be privacy.adaptive, privacy.dp_fedavg.adaptive, threats.attack.adaptive"),
        ("clients", "clients may be data.clients, evaluation.audit.clients"),
        ("no_module_of_mine:Rule", "cannot import 'no_module_of_mine'"),
    ],
)  # fmt: skip
def test_unknown_and_ambiguous_names_are_one_message(name: str, message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        find(name)
    assert str(raised.value).startswith(message)


def test_an_unknown_field_lists_the_fields_of_its_section() -> None:
    with pytest.raises(ScenarioError, match="below training there are lr, momentum, optimizer"):
        find("training.qqqqqq")


def test_every_known_path_leads_to_itself() -> None:
    paths = known_paths()
    assert len(paths) > 600
    assert [path for path in paths if find(path)[0].path != path] == []


def test_a_users_class_takes_the_first_place_of_its_base() -> None:
    (part,) = find("tests.manual.own_rule:Steady")
    assert isinstance(part, Part)
    where = ("world.device.jitter", "world.device.fixed.jitter", "tests.manual.own_rule:Steady")
    assert (part.place, part.holder, part.kind) == where

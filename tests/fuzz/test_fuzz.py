"""A few mutants of each kind of input; `python -m tests.fuzz` tries as many as one likes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.command_lines import SOUND, calling, prepare
from tests.fuzz.judging import campaign, judge
from tests.fuzz.subjects import SUBJECTS, options


@pytest.mark.parametrize(("what", "mutations"), [("scenarios", 150), ("experiments", 60)])
def test_no_mutant_is_a_traceback_a_hang_or_nonsense_that_is_accepted(
    what: str, mutations: int, tmp_path: Path
) -> None:
    report = campaign(SUBJECTS[what], mutations, seed=1, folder=tmp_path)
    assert not report.findings, str(report)
    assert report.outcomes["refused"] > mutations / 4
    assert report.outcomes["accepted"] > 0


@pytest.mark.parametrize(("what", "worlds"), [("ties", 15), ("interrupts", 6)])
def test_drawn_worlds_keep_their_promises(what: str, worlds: int, tmp_path: Path) -> None:
    """Live on simulated time, or interrupted, a run has the bytes of the whole simulated one."""
    report = campaign(SUBJECTS[what], worlds, seed=1, folder=tmp_path)
    assert not report.findings, str(report)
    assert report.outcomes["accepted"] == worlds


@pytest.mark.parametrize("what", ["pictures", "tables", "links"])
def test_drawn_files_are_taken_rightly_or_refused(what: str, tmp_path: Path) -> None:
    """Pictures keep what they show, numbers stay numbers, and a user's files behind links stay."""
    report = campaign(SUBJECTS[what], 60, seed=1, folder=tmp_path)
    assert not report.findings, str(report)
    assert report.outcomes["accepted"] > 0
    assert report.outcomes["refused"] > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lines")
    prepare(place)
    return place


def test_a_sound_line_of_each_command_is_answered(folder: Path) -> None:
    assert {line: judge(calling(line.split(), folder)) for line in SOUND} == dict.fromkeys(SOUND, "accepted")


def test_whatever_is_typed_is_answered_or_refused(folder: Path) -> None:
    report = campaign(options, 60, 0, folder)
    assert not report.findings, str(report)
    assert report.outcomes["refused"] > 20

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.campaign import campaign
from tests.fuzz.command_lines import SOUND, calling, prepare
from tests.fuzz.judging import judge
from tests.fuzz.subjects import options


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

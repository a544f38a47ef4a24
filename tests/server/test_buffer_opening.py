import pytest

from asyncfl.server.dispatch import BufferStatus, OpenAll, OpenCount, OpenDeadline, Opening, OpenQuorum


@pytest.mark.parametrize(
    ("opening", "filling", "opens"),
    [
        (OpenAll(), BufferStatus(held=4, coming=1, cohort=5, wanted=5), False),
        (OpenAll(), BufferStatus(held=5, coming=0, cohort=5, wanted=5), True),
        (OpenAll(), BufferStatus(held=4, coming=2, cohort=6, wanted=4), True),
        (OpenAll(), BufferStatus(held=3, coming=0, cohort=3, wanted=4), True),
        (OpenCount(updates=3), BufferStatus(held=2, coming=9, cohort=0, wanted=0), False),
        (OpenCount(updates=3), BufferStatus(held=3, coming=9, cohort=0, wanted=0), True),
        (OpenQuorum(share=0.5), BufferStatus(held=2, coming=3, cohort=5, wanted=5), False),
        (OpenQuorum(share=0.5), BufferStatus(held=3, coming=2, cohort=5, wanted=5), True),
        (OpenQuorum(share=0.07), BufferStatus(held=7, coming=93, cohort=100, wanted=100), True),
        (OpenDeadline(seconds=1), BufferStatus(held=3, coming=2, cohort=5, wanted=5), False),
        (OpenDeadline(seconds=1), BufferStatus(held=1, coming=4, cohort=5, wanted=5, deadline_passed=True), True),
        (OpenDeadline(seconds=1, at_least=2), BufferStatus(1, 4, 5, 5, deadline_passed=True), False),
        (OpenDeadline(seconds=1), BufferStatus(held=0, coming=5, cohort=5, wanted=5, deadline_passed=True), False),
    ],
)
def test_when_a_buffer_opens(opening: Opening, filling: BufferStatus, opens: bool) -> None:
    assert opening.is_open(filling) is opens

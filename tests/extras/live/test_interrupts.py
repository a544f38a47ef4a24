"""Ctrl-C in the course of a live run."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from asyncfl.extras.live.interrupts import Interrupts


@pytest.fixture(autouse=True)
def _as_in_a_terminal() -> Iterator[None]:
    """Python's own answer to Ctrl-C, which a process that a shell puts into the background does not begin with."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


async def ended_by(interrupts: Interrupts, *, presses: int) -> None:
    """A run that lasts until it is ended."""
    over = asyncio.Event()
    with interrupts.ending(over.set):
        for _ in range(presses):
            ctrl_c()
        await over.wait()


def test_ctrl_c_ends_the_run_but_not_the_writing_of_its_files(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        asyncio.run(ended_by(interrupts, presses=2))
        assert interrupts.came
        assert capfd.readouterr().err == ""
        ctrl_c()
        assert "being written" in capfd.readouterr().err
        # Another run that was to follow ends as soon as it begins.
        asyncio.run(ended_by(interrupts, presses=0))
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_the_first_run_raises_keyboard_interrupt() -> None:
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        ctrl_c()
    assert not interrupts.came

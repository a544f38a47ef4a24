import signal
import threading
from collections.abc import Iterator

import pytest

from asyncfl.base.interrupt_signals import SAME_S, SIGNALS, InterruptedBySignalError, InterruptSignals, status_of

DEFAULTS = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def clock_s(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Time on the wall, which the test sets; signals are handled as in a program that a person starts."""
    now = [0.0]
    monkeypatch.setattr("asyncfl.base.interrupt_signals.time.monotonic", lambda: now[0])
    before = [signal.signal(one, default) for one, default in zip(SIGNALS, DEFAULTS, strict=True)]
    yield now
    assert tuple(signal.getsignal(one) for one in SIGNALS) == DEFAULTS, "handlers are as before"
    for one, handler in zip(SIGNALS, before, strict=True):
        signal.signal(one, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts_work_that_does_not_wait(number: signal.Signals) -> None:
    with pytest.raises(InterruptedBySignalError) as caught, InterruptSignals():
        signal.raise_signal(number)
    assert status_of(caught.value) == 128 + number


def test_work_that_waits_ends_itself(capfd: pytest.CaptureFixture[str]) -> None:
    with InterruptSignals() as interrupts:
        with interrupts.waiting():
            signal.raise_signal(signal.SIGTERM)
            assert interrupts.came == signal.SIGTERM
        with pytest.raises(InterruptedBySignalError, match=str(int(signal.SIGTERM))):
            interrupts.stop()
    assert "a checkpoint written" in capfd.readouterr().err


def test_a_second_signal_ends_at_once_but_not_an_echo_of_the_first(clock_s: list[float]) -> None:
    with InterruptSignals() as interrupts, interrupts.waiting():
        signal.raise_signal(signal.SIGINT)
        clock_s[0] += SAME_S / 2
        signal.raise_signal(signal.SIGINT)
        clock_s[0] += SAME_S
        with pytest.raises(InterruptedBySignalError):
            signal.raise_signal(signal.SIGINT)


def test_signals_that_the_caller_ignores_or_handles_are_left_to_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with InterruptSignals() as interrupts, interrupts.waiting():
            signal.raise_signal(signal.SIGHUP)
            assert interrupts.came is None
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_in_another_thread_no_handler_is_set() -> None:
    found = []

    def work() -> None:
        with InterruptSignals():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]

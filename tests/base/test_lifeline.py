"""Processes end with the one that started them."""

import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

from asyncfl.base.lifeline import end_with


def _work(lifeline: Connection, begun: Connection) -> None:
    end_with(lifeline)
    begun.send(True)
    time.sleep(600)


def test_a_process_ends_in_the_middle_of_its_work_when_nobody_holds_its_lifeline() -> None:
    context = get_context("spawn")
    (reader, lifeline), (told, begun) = context.Pipe(duplex=False), context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(reader, begun))
    process.start()
    assert told.recv()
    assert process.is_alive()
    lifeline.close()
    process.join(60)
    assert process.exitcode == 0

"""One seed of a scenario, held over a Flower grid whose nodes run our ClientApp."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from asyncfl.federation.prepare import Federation
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.flower.letters import Mail, Value
from asyncfl.live.flower.post import Habits, Post
from asyncfl.live.host import Host
from asyncfl.live.run import Progress, Round, hold
from asyncfl.live.terms import Terms

INTERRUPTED = "interrupted"


async def held(
    resolved: ResolvedSeed, mail: Mail, *, progress: Progress | None = None, habits: Habits | None = None
) -> SeedRun:
    """That seed, when all clients of the scenario have come and the run is over.

    A process that is asked to end (Ctrl-C, `flwr stop`) ends the run, with what there is. Raises ScenarioError for what
    no live federation can do, FlowerError where a node's app cannot take part.
    """
    scenario = resolved.scenario
    asks: dict[str, Value] = {"scenario": scenario.to_yaml(), "seed": resolved.seed}
    using = habits or Habits(asks=asks)
    tokens = {str(client): secrets.token_urlsafe(16) for client in range(scenario.data.clients)}

    def around(federation: Federation) -> Round:
        async def everybody(host: Host) -> None:
            post = Post(
                mail, host.serve, tokens, federation.learner.n_parameters, using, lambda: host.stopped, host.end
            )
            with ended_by_signals(host):
                await post.run()

        return everybody

    run = await hold(resolved, Terms(), tokens, around, secret=secrets.randbits(63), progress=progress)
    run.notes.append("live: over Flower, where a client is started for each message")
    return run


@contextmanager
def ended_by_signals(host: Host) -> Iterator[None]:
    """Inside it, a signal to end ends the run of `host` as if its time were up."""
    loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    # In a thread other than the first nobody hears signals.
    with suppress(RuntimeError, ValueError, NotImplementedError):
        for one in signals:
            loop.add_signal_handler(one, host.end, INTERRUPTED)
    try:
        yield
    finally:
        for one in signals:
            with suppress(RuntimeError, ValueError, NotImplementedError):
                loop.remove_signal_handler(one)

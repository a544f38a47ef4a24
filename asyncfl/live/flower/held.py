"""One seed of a scenario, held over a Flower grid whose nodes run our ClientApp."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from functools import partial

from asyncfl.base.errors import ScenarioError
from asyncfl.base.streams import unknown_seed
from asyncfl.federation.prepare import Federation
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.clock import Terms
from asyncfl.live.faults import flower_faults
from asyncfl.live.flower.letters import Mail, Value
from asyncfl.live.flower.post import Habits, Post
from asyncfl.live.host import Host
from asyncfl.live.interrupts import INTERRUPTED, Interrupts
from asyncfl.live.run import Progress, Round, run_live


async def held(
    resolved: ResolvedSeed,
    mail: Mail,
    *,
    progress: Progress | None = None,
    habits: Habits | None = None,
    interrupts: Interrupts | None = None,
) -> SeedRun:
    """That seed, when all clients of the scenario have come and the run is over.

    A process that is asked to end (Ctrl-C, `flwr stop`) ends the run, with what there is. `interrupts`: of several
    seeds, and of what comes after them; None: of this one alone. Raises ScenarioError for what
    no live federation can do, FlowerError where a node's app cannot take part.
    """
    scenario = resolved.scenario
    if faults := list(flower_faults(scenario)):
        raise ScenarioError(faults)
    asks: dict[str, Value] = {"scenario": scenario.to_yaml(), "seed": resolved.seed}
    using = habits or Habits(asks=asks)
    tokens = {str(client): secrets.token_urlsafe(16) for client in range(scenario.data.clients)}

    def around(federation: Federation) -> Round:
        async def everybody(host: Host) -> None:
            post = Post(
                mail, host.serve, tokens, federation.learner.n_parameters, using, lambda: host.stopped, host.end
            )
            with ExitStack() as stack:
                heard = interrupts or stack.enter_context(Interrupts())
                stack.enter_context(heard.ending(partial(host.end, INTERRUPTED)))
                await post.run()

        return everybody

    run = await run_live(resolved, Terms(), tokens, around, secret=unknown_seed(), here=False, progress=progress)
    run.notes.append("live: over Flower, where a client is started for each message")
    return run

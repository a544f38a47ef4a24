"""Whether the clients of a seed were drawn by themselves, in secret, and have a credit for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asyncfl.privacy import Guarantee, PrivacyContext
from asyncfl.privacy.ledger.secret_draws import SecretDraws
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.tasks import Tasks
from asyncfl.simulation.seed_run import SeedRun

BREAKING = {
    Kind.COHORT_REPEATED: "a cohort was drawn again",
    Kind.BANNED: "a client was banned",
    Kind.BUDGET_SPENT: "a client spent its budget",
    Kind.WENT_OFFLINE: "a client was offline",
}
"""Kind of event after which whether a client takes part is no coin of its own -> what happened."""


def secret_draws(run: SeedRun, context: PrivacyContext, tasks: Tasks, stated: Guarantee | None) -> SecretDraws | None:
    """Return the draws of a seed; None where clients are not drawn by themselves, or nothing is claimed of models.

    `stated`: the guarantee of published models.
    """
    if run.resolved is None or stated is None or not run.resolved.scenario.protocol.selection.independent:
        return None
    protocol = run.resolved.scenario.protocol
    rate = protocol.dispatch.at_publish(context.clients) / context.clients
    lost = next(_reasons(run, context, tasks, stated), "")
    whole = run.resolved.scenario.privacy.model_noise(context, None).sensitivity
    return SecretDraws(context.clients, rate, whole, stated.neighbours == "replace", lost)


def _reasons(run: SeedRun, context: PrivacyContext, tasks: Tasks, stated: Guarantee) -> Iterator[str]:
    """Yield why there is no credit."""
    assert run.resolved is not None
    scenario = run.resolved.scenario
    scheme, models = scenario.privacy, run.models
    noise = scheme.model_noise(context, None)
    # Whatever was drawn: whether there is a credit must not depend on the coins that it hides.
    if scenario.threats is not None and not scenario.threats.off:
        yield "attackers may send what they computed from updates of others"
    if stated.unit != "client" or stated.at_every_client:
        yield "the guarantee is not about a client"
    if noise.distribution != "gaussian" or not noise.std or (run.uploads.column("release.std") > 0).any():
        yield "not all noise is Gaussian noise of the server"
    if scheme.bit_noise(context) is not None:
        yield "the clip norm adapts to those who were drawn"
    if scheme.correlation is not None:
        yield "the noise of versions is correlated"
    if scenario.protocol.min_separation is not None or scenario.protocol.max_participations is not None:
        yield "clients that have taken part must wait"
    if scenario.protocol.secure_aggregation is not None:
        yield "the clients of a cohort learn of each other"
    if scenario.protocol.expected_updates is None:
        yield "updates are divided by their number, which depends on who was drawn"
    if not context.fixed_weights:
        yield "weights depend on data"
    kinds = select(run.events, kinds=[*BREAKING])["kind"].to_pylist()
    if kinds:
        yield BREAKING[Kind(kinds[0])]
    published = tasks.base_version < max((int(row["version"]) for row in run.rounds), default=0)
    in_time = tasks.with_fate(Fate.AGGREGATED) & (tasks.making == tasks.base_version + 1)
    if not in_time[published].all():
        yield "updates of clients that were drawn were lost, late or left out"
    # The same noise, but for rounding: it is computed from the number of updates and their weights.
    if not np.allclose(models.server_std, models.server_std[:1], rtol=1e-9, atol=0):
        yield "versions have different noise"

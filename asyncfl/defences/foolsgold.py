"""FoolsGold: gives less weight to clients whose updates so far resemble each other more than others' do."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.client_means import ClientMeans, add_buffer, empty_means
from asyncfl.defences.distances import inner_products
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.defences.rule import Aggregate, Rule, present

ALL = 1 << 62  # number of a client's last updates that are averaged: all
ROUNDING = 1e-6  # largest 1 - cosine that equal updates may show in float32
NONE_TRUSTED = "foolsgold: every client resembles another, no update was used"


class FoolsGold(Rule):
    """Sum of the updates, each times the credit of its client: near 0 for clients that resemble another, 1 for others.

    cs_ij is the cosine of the sums of all updates of clients i and j, and v_i = max_j cs_ij. Where v_j > v_i, cs_ij is
    multiplied by v_i / v_j (pardoning). alpha_i = 1 - max_j cs_ij is divided by the largest alpha, and the credit is
    `confidence` (ln(alpha / (1 - alpha)) + 1/2), clipped to 0..1.

    Use it against Sybils that work for one goal, if honest clients' data differ. Honest clients that are alike lose
    their credit, and with it the model its progress; one attacker alone is not found. All parameters are compared (S =
    1). All clients that have sent an update are compared, in the buffer or not. Negative similarities count as 0. It
    stores a vector for each client. Source: Fung, Yoon, Beschastnikh 2020; pardoning and credit as in their program.
    """

    kind: Literal["foolsgold"] = "foolsgold"
    confidence: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """kappa, > 0: a larger one moves credits towards 0 and 1."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> ClientMeans:
        return empty_means(context.clients)

    def step(self, state: ClientMeans, buffer: Buffer, weights: Floats) -> tuple[Aggregate, ClientMeans]:
        rows = present(buffer.deltas, weights)
        weighed = np.zeros(len(buffer))
        if not len(rows):
            return Aggregate(np.zeros_like(buffer.current), weighed), state
        updates, clients = buffer.deltas[rows], buffer.clients[rows]
        # The cosine of two sums is that of the means.
        products = state.products(updates), inner_products(updates, updates)
        state = add_buffer(state, clients, updates, *products, np.zeros(len(rows)), ALL)
        credit = np.zeros(len(state.rows))
        credit[state.present] = self.credits(state.gram[np.ix_(state.present, state.present)])
        weighed[rows] = weights[rows] * credit[clients]
        return Aggregate(weighted_sum(weighed, buffer.deltas), weighed, () if weighed.any() else (NONE_TRUSTED,)), state

    def forget_client(self, state: ClientMeans, client: int) -> ClientMeans:
        return state.forget(client)

    def credits(self, gram: Floats) -> Floats:
        """Return the credits (n,) in 0..1 of n >= 1 clients from the inner products (n, n) of their summed updates."""
        if len(gram) == 1:
            return np.ones(1)
        lengths = np.sqrt(np.diagonal(gram))
        scale = np.multiply.outer(lengths, lengths)
        similar = np.clip(np.divide(gram, scale, out=np.zeros_like(gram), where=scale > 0), 0.0, 1.0)
        np.fill_diagonal(similar, 0.0)
        most = similar.max(axis=1)
        pardon = np.divide(most[:, None], most, out=np.ones_like(similar), where=most > most[:, None])
        honesty = 1 - (similar * pardon).max(axis=1)
        if not honesty.max() > ROUNDING:
            return np.zeros(len(gram))
        honesty /= honesty.max()
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(self.confidence * (np.log(honesty) - np.log1p(-honesty) + 0.5), 0.0, 1.0))

"""SecureAFL: filters by Lipschitz coefficients, estimates the updates of absent clients, and takes the median
of all."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clipping import Radius, clipping_factors
from asyncfl.defences.gradients import Gradient, Pair, gradient_of, hessian, upper_quantile, without
from asyncfl.defences.rule import Aggregate, Rule, present
from asyncfl.defences.sorting import middle_mean


@dataclass(frozen=True)
class SecureAflState:
    """State of the rule: accepted gradients and curvature of each client."""

    context: DefenceContext
    gradients: dict[int, Gradient] = field(default_factory=dict)  # client -> its last accepted gradient
    pairs: dict[int, tuple[Pair, ...]] = field(default_factory=dict)
    """Client -> last differences between the models it was sent, and of its gradients, the oldest first."""
    coefficients: dict[int, float] = field(default_factory=dict)  # client -> its last Lipschitz coefficient


class SecureAfl(Rule):
    """Coordinate-wise median of the accepted updates and of an estimate for every other known client.

    An update is left out if its client's empirical Lipschitz coefficient, |g - g'| / |w - w'| with the last accepted
    gradient g' at model w', exceeds the (1 - expected_share) quantile of all clients' last coefficients. A client's
    first update is accepted. A client outside the buffer is represented by g' + H (w - w'), with w the current model
    and H the L-BFGS estimate from its last `pairs` differences, clipped to `bound` and converted to an update. So is a
    client whose update a detector left out. Banned clients are forgotten. The aggregate is the summed weight of the
    accepted updates times the median.

    Use it if single updates are applied as they arrive and the server holds no samples. It stores 2 `pairs` + 1 vectors
    per client. Points that the source's abstract leaves open follow Kardam (the quantile; the papers share authors) and
    FedRecover (a Hessian per client from two pairs). Source: Gao et al. 2026; Cao et al. 2023 for the estimate.
    """

    kind: Literal["secure_afl"] = "secure_afl"
    expected_share: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.2
    """Share of the clients whose coefficients are assumed to be too large, 0..1."""
    pairs: Annotated[int, Field(ge=1, le=100), MeasuredIn("updates")] = 2
    """Number of a client's gradient differences for its curvature estimate, >= 1."""
    bound: Annotated[Radius, MeasuredIn("L2 norm of a gradient")] = "median"
    """Maximum length of an estimated gradient, > 0; `median`: the median length of the known gradients."""

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        """Return the median of `updates` times the sum of the weights, without filter and estimates."""
        return self._median(updates[present(updates, weights)], [], weights)

    def start(self, context: DefenceContext, random: np.random.Generator) -> SecureAflState:
        return SecureAflState(context)

    def step(self, state: SecureAflState, buffer: Buffer, weights: Floats) -> tuple[Aggregate, SecureAflState]:
        rows = present(buffer.deltas, weights)
        state, accepted = self._filter_updates(state, buffer, rows)
        counted = np.where(accepted, weights, 0.0)
        absent = [client for client in state.gradients if client not in set(buffer.clients[rows].tolist())]
        estimates = self._estimate_updates(state, absent, buffer.current) if accepted.any() else []
        if buffer.origin is not None:
            # Convert to differences from `origin`, like the other updates.
            estimates = [estimate + (buffer.current - buffer.origin) for estimate in estimates]
        return Aggregate(self._median(buffer.deltas[accepted], estimates, counted), counted), state

    def forget_client(self, state: SecureAflState, client: int) -> SecureAflState:
        return without(state, client, "gradients", "pairs", "coefficients")

    def _median(self, updates: Vector, estimates: list[Vector], weights: Floats) -> Vector:
        """Return the median of `updates` and `estimates` times the sum of `weights`; 0 without updates."""
        if not len(updates):
            return np.zeros(updates.shape[1], dtype=updates.dtype)
        rows = np.concatenate([updates, np.array(estimates, dtype=updates.dtype).reshape(-1, updates.shape[1])])
        return np.asarray(middle_mean(rows, (len(rows) - 1) // 2) * updates.dtype.type(weights.sum()))

    def _filter_updates(self, state: SecureAflState, buffer: Buffer, rows: Ints) -> tuple[SecureAflState, Bools]:
        """Return the state after the accepted updates, and whether each update was accepted, (n_updates,) bool. `rows`:
        those with a weight; other rows are not accepted."""
        sent = {row: (int(buffer.clients[row]), gradient_of(state.context, buffer, row)) for row in rows.tolist()}
        gradients, pairs, coefficients = dict(state.gradients), dict(state.pairs), dict(state.coefficients)
        of_row: dict[int, float] = {}
        for row, (client, new) in sent.items():
            last = state.gradients.get(client)
            if last is not None and last.version != new.version:
                # The Lipschitz coefficient: |g - g'| / |w - w'|.
                distance = float(np.linalg.norm((new.model - last.model).astype(np.float64)))
                changed = float(np.linalg.norm(new.values() - last.values()))
                of_row[row] = coefficients[client] = changed / distance if distance else math.inf
        limit = upper_quantile(self.expected_share, coefficients.values()) if coefficients else math.inf
        accepted = np.zeros(len(buffer), dtype=bool)
        for row, (client, new) in sent.items():
            accepted[row] = not (of_row.get(row, 0.0) > limit)
            if not accepted[row]:
                continue
            last = gradients.get(client)
            if last is not None and last.version != new.version:
                pair = new.model - last.model, (new.values() - last.values()).astype(np.float32)
                pairs[client] = (*pairs.get(client, ()), pair)[-self.pairs :]
            gradients[client] = new
        return SecureAflState(state.context, gradients, pairs, coefficients), accepted

    def _estimate_updates(self, state: SecureAflState, clients: list[int], current: Vector) -> list[Vector]:
        """Return an estimated update (n_parameters,) of each of `clients` at the `current` model, in their order."""
        if not clients:
            return []
        lengths = [float(np.linalg.norm(gradient.values())) for gradient in state.gradients.values()]
        longest = float(np.median(lengths)) if self.bound == "median" else self.bound
        estimates = []
        for client in clients:
            last = state.gradients[client]
            predicted = last.values()
            product = hessian(state.pairs.get(client, ()))
            if product is not None:
                predicted = predicted + product(current - last.model)
            length = np.array([np.linalg.norm(predicted)])
            predicted = predicted * clipping_factors(length, longest) if longest else np.zeros_like(predicted)
            estimates.append((predicted / last.scale).astype(np.float32))
        return estimates

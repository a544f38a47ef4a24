"""What a client agrees to: the most that its server may ask of it, and a table of that for its user."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asyncfl.base.component import kind_of
from asyncfl.base.errors import AsyncflError
from asyncfl.live.conduct import with_share
from asyncfl.live.wire import MOST_MODELS, Welcome
from asyncfl.privacy import PrivacyContext
from asyncfl.privacy.accounting.accountants import epsilon_by
from asyncfl.privacy.accounting.events import MechanismEvent
from asyncfl.privacy.ledger.releases import typical_uploads
from asyncfl.scenario import Scenario


class DisagreementError(AsyncflError):
    """The server wants something else than its client agreed to."""


@dataclass(frozen=True)
class ServerLimits:
    """The most that a server may ask of one client in a run of a scenario."""

    uploads: int | None
    """Uploads of the client; None: the scenario allows any number."""
    requests: int
    """Requests for scores."""
    models: int
    """Models of one request; 0: the scenario has no detector that asks clients."""

    @classmethod
    def of(cls, scenario: Scenario) -> ServerLimits:
        """Return the limits that follow from the protocol and the detector of a scenario."""
        protocol, clients, detector = with_share(scenario.protocol), scenario.data.clients, scenario.defence.detector
        rounds, updates, share = protocol.rounds, protocol.opening.updates, protocol.per_client
        uploads = None
        if protocol.dispatch.in_cohorts:
            uploads = rounds
        elif share is not None:
            # Its share of each buffer and of the one that the last version leaves, and for each version one too old.
            uploads = (rounds + 1) * share + (rounds if protocol.max_staleness is not None else 0)
        if detector is None or not detector.asks_clients:
            return cls(uploads, 0, 0)
        # Late updates of one cohort may come into the buffer of the next.
        most = updates or (2 * clients if protocol.dispatch.in_cohorts else MOST_MODELS)
        return cls(uploads, rounds, min(detector.models_asked(most) or MOST_MODELS, MOST_MODELS))

    def check_task(self, uploads: int) -> None:
        """Raise DisagreementError where a client that has made so many `uploads` is given another task."""
        if self.uploads is not None and uploads >= self.uploads:
            raise DisagreementError(
                f"the server gives another task after {uploads} uploads, which is all that the scenario allows a client"
            )

    def check_request(self, requests: int, models: int) -> None:
        """Raise DisagreementError where a client is asked to score `models` models after so many `requests`."""
        if not self.models:
            raise DisagreementError(
                "the server asks for accuracies on this client's samples, and the scenario has no detector that needs "
                "them"
            )
        if models > self.models:
            raise DisagreementError(
                f"the server asks for accuracies of {models} models, and the scenario allows {self.models} at a time"
            )
        if requests >= self.requests:
            raise DisagreementError(
                f"the server asks for accuracies again after {requests} requests, which is all that the scenario "
                "allows a client"
            )


def describe_terms(welcome: Welcome, scenario: Scenario, context: PrivacyContext, samples: int) -> dict[str, str]:
    """Return what a client with so many `samples` agrees to: name of each matter -> text for its user."""
    limits, scheme = ServerLimits.of(scenario), scenario.privacy
    uploads = "any number" if limits.uploads is None else f"at most {limits.uploads}"
    personal = ", less its personal layers" if scenario.model.personal else ""
    shape = f"waits as the scenario's world says, {welcome.speedup:g} times as fast" if welcome.shape else "as they are"
    terms = {
        "data": f"{samples} samples like {scenario.data.names[0]}, which stay here",
        "model": f"{kind_of(scenario.model)}, {scenario.n_parameters} parameters{personal}",
        "task": f"{_counted(scenario.training.epochs, 'epoch')} on these samples",
        "uploads": uploads,
        "privacy": "none: updates leave as they are" if scheme.off else _describe_noise(scenario, context, samples),
    }
    if (stop_at := scheme.stop_at) is not None:
        terms["budget"] = f"epsilon {stop_at.epsilon:g}, after which this client uploads no more"
    terms["losses"] = "sent, without noise" if scenario.reports_losses else "stay here"
    if limits.models:
        noise = "without noise" if scheme.scores is None else "with noise"
        models, times = _counted(limits.models, "model"), _counted(limits.requests, "time")
        terms["accuracies"] = f"of {models} on these samples, {times}, {noise}"
    else:
        terms["accuracies"] = "stay here"
    if scenario.threats is not None and not scenario.threats.off:
        terms["attack"] = f"{kind_of(scenario.threats.attack)}, in tasks for which the server asks for it"
    return terms | {"device and links": shape}


def _describe_noise(scenario: Scenario, context: PrivacyContext, samples: int) -> str:
    """Describe the noise on one upload, and the epsilon of all uploads against the server by exact accounting."""
    scheme = scenario.privacy
    [release] = typical_uploads(scheme, context, np.array([samples]), None)
    if not release.std:
        return f"{kind_of(scheme)}: no noise is added here, the server is trusted with the updates"
    text = f"{kind_of(scheme)}: {release.distribution} noise of standard deviation {release.std:.3g} on each parameter"
    guarantee, uploads = scheme.upload_guarantee(context), ServerLimits.of(scenario).uploads
    if guarantee is not None and math.isfinite(guarantee.epsilon):
        claimed = _counted(guarantee.releases, "upload")
        text += f", epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g} claimed for {claimed}"
        if uploads is not None and np.isfinite(release.sensitivity):
            event = MechanismEvent(release.distribution, release.multiplier, release.count * uploads)
            epsilon = epsilon_by("exact", [event], guarantee.delta)
            text += "" if epsilon is None else f"; {epsilon:.4g} for {uploads}, by exact accounting"
        if guarantee.status != "proven":
            text += f" (its sensitivity: {guarantee.status})"
    return text


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

"""What every privacy scheme answers: what is clipped, how much noise a client adds, how much the server adds.

A scheme draws nothing. It says standard deviations; the path of a task and the server draw the noise from
their own streams. One scheme serves all clients of a run, so per-client quantities come in as arguments.

A scheme is a description and never changes. What changes over a run (the last losses of the clients, an adaptive clip
norm) lives in a `State` that `start` makes, once per seed. For each collection, in this order, and each in the order of
the tasks: the path asks `upload_epsilon` and then tells the state of the loss and norm (`State.trained`); it clips to
`clip_norm_of`, asks `upload_std`, and at last tells the state of the whole collection (`State.collected`). When the
server publishes, it asks `server_std` with the same state and the contributions that it aggregated. A scheme that
`needs_every_task` has each task trained, and its state told, at the moment at which the training ends on the clock,
also of tasks whose update is lost, late, discarded or of a banned client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import SerializerFunctionWrapHandler, model_serializer

from asyncfl.component import Component
from asyncfl.errors import Fault
from asyncfl.learning.layout import Layout
from asyncfl.messages import Vector
from asyncfl.privacy.context import Contribution, LocalTraining, PrivacyContext
from asyncfl.privacy.noise.shares import planned
from asyncfl.privacy.release import Distribution, Release, Status
from asyncfl.privacy.stop_at import StopAt

Payload = Literal["model", "update"]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a scheme states about one kind of release."""

    neighbours: str
    """The data sets that are to be indistinguishable."""
    status: Status
    """How well the sensitivity is founded, see `Status`."""
    epsilon: float
    """Claimed epsilon for `releases` releases together; infinite where nothing is claimed."""
    delta: float
    """Claimed delta; 0 where nothing is claimed."""
    releases: int
    """Number of releases that the claim is made for."""


class MixingNode(Protocol):
    """A trusted node between the clients and the server, which mixes the updates of a buffer."""

    @property
    def seconds(self) -> float:
        """Virtual seconds between the last update of a buffer and what the server gets, >= 0."""
        ...

    @property
    def said(self) -> str:
        """What it does, in a few words, for the trace."""
        ...

    def shuffle(self, models: Vector, layout: Layout, sound: NDArray[np.bool_], random: np.random.Generator) -> None:
        """Mix the rows of `models` (n, n_parameters), in place; rows that are not `sound` (n,) pass as they are."""
        ...


class State:
    """What a scheme remembers over one seed. Derive a dataclass of arrays and numbers from it."""

    def trained(self, contribution: Contribution, loss: float, norm: float) -> None:
        """Take note of a trained task: its mean training loss of the last epoch, and the norm of its payload before
        clipping (of the scheme's `clip_order`). Called once per trained task."""

    def collected(
        self, contributions: Sequence[Contribution], norms: NDArray[np.float64], random: np.random.Generator
    ) -> None:
        """Take note of what one aggregation collected, after its clipping and noise: (n,) norms before clipping.

        `random`: a generator of its own for each collection, for noise on what is learnt from it.
        """


class Scheme(Component):
    """Says what is clipped and how much noise is added where."""

    stop_at: StopAt | None = None
    """Budget at which a client stops answering, checked before it would be overspent; null: it always answers."""

    @model_serializer(mode="wrap")
    def _leave_out_no_budget(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `stop_at: null`: runs in which nobody stops keep the name that they have had."""
        fields: dict[str, Any] = handler(self)
        return {name: value for name, value in fields.items() if name != "stop_at" or value is not None}

    @property
    def payload(self) -> Payload:
        """What is clipped and noised: the uploaded model, or its difference from the model the client was sent."""
        return "model"

    @property
    def distribution(self) -> Distribution:
        """What the noise on uploads is drawn from."""
        return "gaussian"

    @property
    def server_distribution(self) -> Distribution:
        """What the noise on published models is drawn from."""
        return "gaussian"

    @property
    def clip_order(self) -> Literal[1, 2]:
        """Norm in which payloads are measured and clipped: L1 or L2."""
        return 2

    @property
    def needs_every_task(self) -> bool:
        """Whether the state must hear of tasks whose update nobody uses, which are then trained as well.

        The clip norm of such a scheme must not depend on the norms of a collection.
        """
        return False

    @property
    def noise_each_epoch(self) -> bool:
        """Whether clients add the noise of an upload after each earlier epoch of a task as well."""
        return False

    @property
    def mixing_node(self) -> MixingNode | None:
        """Trusted node that the updates of a buffer pass together on their way to the server; None: there is none."""
        return None

    @property
    def reference(self) -> Scheme | None:
        """Scheme whose run of the same scenario and seed must come first, because this one is measured by it."""
        return None

    def measured_by(self, uploads: Sequence[Mapping[str, Any]]) -> Scheme:
        """This scheme with what it takes from the run of its `reference`, given as the rows of `SeedRun.uploads`."""
        return self

    def faults(self, clients: int) -> Iterator[Fault]:
        """What cannot work with `clients` clients, fields named relative to the scheme."""
        yield from ()

    def training_faults(self, training: LocalTraining, rounds: int) -> Iterator[Fault]:
        """What does not go together with how clients train for `rounds` versions, fields named relative to the
        scheme."""
        yield from ()

    @property
    def off(self) -> bool:
        """Whether nothing is clipped and nothing noised: such a run is the same as one without privacy."""
        return False

    def start(self, context: PrivacyContext) -> State | None:
        """What the scheme remembers over a seed, at its beginning; None: nothing."""
        return None

    def resolve_exposures(self, rounds: int, participants: int, clients: int) -> int | None:
        """L, the uploads of one client an eavesdropper is assumed to hold; None: measure it on the clock first.

        Raises ScenarioError where the assumption is impossible for that many rounds.
        """
        return 0

    def upload_epsilon(self, context: PrivacyContext, state: State | None, client: int, turn: int) -> float | None:
        """Budget of the upload that `client` makes in its task number `turn`; None: the same for all uploads."""
        return None

    def update_factor(self, context: PrivacyContext, samples: int) -> float:
        """What an update of a client with `samples` is multiplied by before it is measured, clipped and noised.

        Asked for where the payload is the update.
        """
        return 1.0

    def clip_norm_of(self, norms: NDArray[np.floating], state: State | None = None) -> float | None:
        """Norm that payloads are clipped to; None: no clipping.

        `norms`: (n,) unclipped, finite norms (`clip_order`) of the payloads of one aggregation, n >= 1.
        """
        return None

    def upload_std(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Standard deviation of the noise on each parameter of one upload, >= 0.

        `clip_norm`: what `clip_norm_of` returned.
        """
        return 0.0

    def upload_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Sensitivity of one upload that accountants take, L2 (gaussian) or L1 (laplace); infinite where nothing bounds
        it. It is the one that the scheme calibrates to; where that is known to be wrong, the true one."""
        return np.inf

    def upload_count(self, context: PrivacyContext, contribution: Contribution) -> int:
        """Mechanisms with `upload_std` on `upload_sensitivity` that one upload stands for, >= 1."""
        return 1

    def server_std(
        self,
        context: PrivacyContext,
        clip_norm: float | None,
        state: State | None = None,
        contributions: Sequence[Contribution] = (),
    ) -> float:
        """Standard deviation of the noise that the server adds to each parameter before it publishes, >= 0.

        `contributions`: the updates that were aggregated, with what each weighs, several of one client included; empty
        where it is asked before training. `noise.shares.max_client_weight` tells what that is to one client.
        """
        return 0.0

    def model_sensitivities(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution]
    ) -> dict[int, float]:
        """Client -> sensitivity of one published model to the data of that client, as of an upload
        (`upload_sensitivity`).

        `contributions`: the updates that are in it, at least one. A client may have several, and they have weights; see
        `noise.shares.of_clients`.
        """
        return dict.fromkeys((one.client for one in contributions), np.inf)

    def model_sensitivity(
        self,
        context: PrivacyContext,
        clip_norm: float | None,
        contributions: Sequence[Contribution] = (),
    ) -> float:
        """The largest of `model_sensitivities`; without `contributions` that of one update each of K clients."""
        return max(self.model_sensitivities(context, clip_norm, contributions or planned(context)).values())

    def upload_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """What the scheme states about uploads, of all clients alike; None: nothing."""
        return None

    def client_guarantee(self, context: PrivacyContext, client: int) -> Guarantee | None:
        """What it states about the uploads of `client`, where its clients have claims of their own; None: nothing."""
        return self.upload_guarantee(context)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """What the scheme states about published models; None: nothing."""
        return None

    def upload_release(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Release:
        """One upload as an accountant sees it. Its claim is the upload's own budget, or its share of the scheme's."""
        client = contribution.client
        stated = self.upload_guarantee(context) if client < 0 else self.client_guarantee(context, client)
        return Release(
            self.distribution,
            self.upload_std(context, clip_norm, contribution),
            self.upload_sensitivity(context, clip_norm, contribution),
            self.upload_count(context, contribution),
            "none" if stated is None else stated.neighbours,
            "none" if stated is None else stated.status,
            _claim(stated) if contribution.epsilon is None else contribution.epsilon,
            0.0 if stated is None else stated.delta,
        )

    def notes(self, context: PrivacyContext, n_parameters: int) -> list[str]:
        """Sentences that a reader of the run's results must see: what is assumed, what does not hold."""
        return []


def _claim(stated: Guarantee | None) -> float:
    """Share of one release in what is stated for several."""
    return np.inf if stated is None or not stated.releases else stated.epsilon / stated.releases

"""What every privacy scheme answers: what is clipped, how much noise a client adds, how much the server adds.

A scheme draws nothing. It says standard deviations; the path of a task and the server draw the noise from
their own streams. One scheme serves all clients of a run, so per-client quantities come in as arguments.

A scheme is a description and never changes. What changes over a run (the last losses of the clients, an adaptive clip
norm) lives in a `State` that `start` makes, once per seed. For each collection, in this order, and each in the order of
the tasks: the path asks `State.epsilon` and then tells the state of the loss and norm (`State.record_training`); it
clips to `State.clip_norm`, asks `upload_noise`, and at last tells the state of the whole collection
(`State.record_collection`). When the server publishes, it asks `model_noise` with the contributions that it aggregated.
A scheme that `needs_every_task` has each task trained, and its state told, at the moment at which the training ends on
the clock,
also of tasks whose update is lost, late, discarded or of a banned client.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.errors import Fault
from asyncfl.learning.layout import Layout
from asyncfl.messages import Vector
from asyncfl.privacy.accounting.composition import ClassicalRelease
from asyncfl.privacy.coalition import Curious
from asyncfl.privacy.context import Contribution, LocalTraining, PrivacyContext
from asyncfl.privacy.exposures import MeasuredExposures
from asyncfl.privacy.noise.client_weights import planned_contributions
from asyncfl.privacy.release import Distribution, Status, Unit
from asyncfl.privacy.score_noise import ScoreNoise
from asyncfl.privacy.stop_at import StopAt
from asyncfl.privacy.upload_records import Upload
from asyncfl.quantities import MeasuredIn


@dataclass(frozen=True, slots=True)
class ClipTarget:
    """What of an upload is measured, scaled down where it is too long, and noised."""

    payload: Literal["model", "update"] = "model"
    """The uploaded model, or its difference from the model that the client was sent."""
    order: Literal[1, 2] = 2
    """L1 or L2 norm."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise on one upload."""

    std: float
    """Standard deviation on each parameter, >= 0."""
    sensitivity: float = np.inf
    """What one neighbour can change that accountants take, L2 (gaussian) or L1 (laplace); infinite where nothing bounds
    it. It is the one that the noise was calibrated to; where that is known to be wrong, the true one."""
    count: int = 1
    """Mechanisms with this noise on this sensitivity that the upload stands for, >= 1."""
    distribution: Distribution = "gaussian"
    """What it is drawn from."""
    epsilon: float | None = None
    """Claimed for this upload alone; None: the upload's own budget, or its share of what the scheme states."""
    in_training: bool = False
    """Whether training has drawn it: then nothing is added to the upload."""

    @property
    def upload_std(self) -> float:
        """Standard deviation of all draws of a task together that the upload carries as they were; 0 where training has
        drawn the noise, which it then scales."""
        return 0.0 if self.in_training else self.std * math.sqrt(self.count)


@dataclass(frozen=True, slots=True)
class ModelNoise:
    """The noise that the server adds to one published model."""

    std: float
    """Standard deviation on each parameter, >= 0."""
    sensitivities: Mapping[int, float]
    """Client -> what its data can change in the model, as of an upload (`Noise.sensitivity`)."""
    distribution: Distribution = "gaussian"
    """What it is drawn from."""

    @property
    def sensitivity(self) -> float:
        """The largest of the clients'."""
        return max(self.sensitivities.values())


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a scheme states about one kind of release."""

    unit: Unit
    """Whose data neighbours differ in."""
    neighbours: str
    """The data sets that are to be indistinguishable: `replace`, the unit's data are others; `zero_out`, a client's
    updates count as zero, which is what leaving out a client means where the number of participants is fixed (Kairouz
    et al. 2021, Practical and Private Deep Learning without Sampling or Shuffling); or others, in words."""
    status: Status
    """How well the sensitivity is founded, see `Status`."""
    epsilon: float
    """Claimed epsilon for `releases` releases together; infinite where nothing is claimed."""
    delta: float
    """Claimed delta; 0 where nothing is claimed."""
    releases: int
    """Number of releases that the claim is made for."""
    at_every_client: bool = False
    """Whether neighbours differ at every client at once."""

    @property
    def epsilon_per_release(self) -> float:
        """Epsilon of one of them, where each has as much; infinite where nothing is claimed."""
        return self.epsilon / self.releases if self.releases else np.inf


class MixingNode(Protocol):
    """A trusted node between the clients and the server, which mixes the updates of a buffer."""

    @property
    def seconds(self) -> float:
        """Virtual seconds between the last update of a buffer and what the server gets, >= 0."""
        ...

    @property
    def description(self) -> str:
        """What it does, in a few words, for the trace."""
        ...

    def shuffle(self, models: Vector, layout: Layout, sound: NDArray[np.bool_], random: np.random.Generator) -> None:
        """Mix the rows of `models` (n, n_parameters), in place; rows that are not `sound` (n,) pass as they are."""
        ...


class State:
    """What a scheme knows and remembers over one seed. Derive a dataclass of arrays and numbers from it."""

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """Norm that payloads are clipped to; None: no clipping.

        `norms`: (n,) unclipped, finite norms of the payloads of one collection, n >= 1.
        """
        return None

    def epsilon(self, client: int, turn: int) -> float | None:
        """Budget of the upload that `client` makes in its task number `turn`; None: the same for all uploads."""
        return None

    def record_training(self, contribution: Contribution, loss: float, norm: float) -> None:
        """Take note of a trained task: its mean training loss of the last epoch, and the norm of its payload before
        clipping. Called once per trained task."""

    def record_collection(
        self, contributions: Sequence[Contribution], norms: NDArray[np.float64], random: np.random.Generator
    ) -> None:
        """Take note of what one aggregation collected, after its clipping and noise: (n,) norms before clipping.

        `random`: a generator of its own for each collection, for noise on what is learnt from it.
        """


@dataclass
class FixedNorm(State):
    """Clipping to one norm throughout."""

    norm: float | None

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """That norm."""
        return self.norm


@dataclass(frozen=True)
class Reference:
    """Another scheme whose run of the same scenario and seed must come first."""

    scheme: Scheme
    settle: Callable[[Sequence[Upload]], Scheme]
    """The scheme that was to be measured, from the uploads of that run."""


class Scheme(Component):
    """Says what is clipped and how much noise is added where."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.clip_norm",
        "rounds.sigma_u",
        "rounds.sigma_d",
        "rounds.epsilon_claimed_max",
        "rounds.epsilon_exact_max",
        "ledger.claimed_epsilon",
        "ledger.exact_epsilon",
        "ledger.provable",
        "ledger.measured",
        "ledger.status",
        "ledger.flags",
        "summary.notes",
    )

    stop_at: StopAt | None = None
    """Budget at which a client stops answering, checked before it would be overspent; null: it always answers."""
    scores: ScoreNoise | None = None
    """Noise on what a client answers that is asked to score models; null: none, which the ledger flags."""
    curious: Annotated[Curious, MeasuredIn("share or clients")] = 0.0
    """Clients that put together what they are sent: a share of all, or their numbers. The ledger has rows of what they
    know of the others; they follow the protocol."""

    # --- what it does to uploads and models --------------------------------------------------------------------------

    @property
    def off(self) -> bool:
        """Whether nothing is clipped and nothing noised: such a run is the same as one without privacy."""
        return False

    @property
    def clip_target(self) -> ClipTarget:
        """What is measured, clipped and noised of an upload, and in which norm."""
        return ClipTarget()

    @property
    def bounds_uploads(self) -> bool:
        """Whether clipping bounds what a client's data can change in an upload, whatever they are: the promise is then
        for a payload that is not finite too, which becomes zero before the noise. Else the server rejects it."""
        return False

    def update_factor(self, context: PrivacyContext, samples: int, epochs: int | None = None) -> float:
        """What an update of a client with `samples` is multiplied by before it is measured, clipped and noised.

        Asked for where the update is clipped. `epochs`: that it comes of; None: all of a task.
        """
        return 1.0

    def start(self, context: PrivacyContext) -> State:
        """What the scheme knows and remembers over a seed, at its beginning."""
        return State()

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """The noise on one upload, clipped to `clip_norm` (`State.clip_norm`)."""
        return Noise(0.0)

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """What one neighbour provably changes in an upload, in the norm of its noise; asked for where the status is
        heuristic. Infinite: nothing is proven."""
        return np.inf

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """The noise that the server adds to a model before it is published, and what each client can change in it.

        `contributions`: the updates that were aggregated, with what each weighs, several of one client included (see
        `noise.client_weights`); empty where it is asked before training: then one update each of K clients, as is
        planned.
        """
        return model_without_noise(context, contributions)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """The server's noise on a version over what one client's updates can move it by, at least: whatever enters it
        and whatever that weighs (`Release.multiplier`). None: the scheme states none."""
        return None

    # --- what it states ----------------------------------------------------------------------------------------------

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """What it states about the uploads of `client`, or (None) of all clients alike; None: nothing."""
        return None

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """What it states about published models; None: nothing."""
        return None

    def flags(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> list[str]:
        """What stands in the way of what it states, in a few words each: those of `privacy.flags`, or words of its own.

        Asked where it states something about uploads, or `of_models`; `epsilon`: the largest that one of the releases
        in question was calibrated for. That a sensitivity is heuristic or invalid need not be said here: the status of
        the guarantee says it; nor a calibration past its limit: `classical` does.
        """
        return []

    def classical(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> ClassicalRelease | None:
        """One upload, or `of_models` one published model, whose noise is calibrated by sqrt(2 ln(1.25/delta))/epsilon;
        None: it is not. Past its limit that is flagged; `epsilon` as of `flags`."""
        return None

    def notes(self, context: PrivacyContext) -> list[str]:
        """Sentences that a reader of the run's results must see: what is assumed, what does not hold."""
        return []

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """The scheme whose noise on one upload is that of `epsilon`, in the sense in which it speaks of one, and fields
        of `training` that go with it. An attacker looks at an upload through it (`asyncfl audit reconstruct`).

        `epsilon`: above 0; infinite: no noise. `epochs`: of a task. `length`: L2 norm of the update as it was sent.
        Raises ValueError, with what to say of it, where there is no such noise.
        """
        if "epsilon" not in type(self).model_fields:
            raise ValueError(
                f"privacy.kind {type(self).__name__} has no field epsilon and no method with_epsilon of its own: it "
                "cannot be asked for the noise of one"
            )
        return self.model_copy(update={"epsilon": epsilon}), {}

    # --- what it needs -----------------------------------------------------------------------------------------------

    def faults(self, clients: int, rounds: int, training: LocalTraining | None) -> Iterator[Fault]:
        """What cannot work with `clients` clients and `rounds` versions, fields named relative to the scheme.

        `training`: how clients train; None where that is at fault itself.
        """
        yield from ()

    def assumed_exposures(self, rounds: int, participants: int, clients: int) -> int | MeasuredExposures:
        """L, the uploads of one client that an eavesdropper is assumed to hold, or how to measure it on the clock.

        A number must be 0..rounds; a scenario where it is not is refused.
        """
        return 0

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
    def accounts_for_training(self) -> bool:
        """Whether the noise of an upload is that which training has drawn (`training.example_noise`)."""
        return False

    @property
    def mixing_node(self) -> MixingNode | None:
        """Trusted node that the updates of a buffer pass together on their way to the server; None: there is none."""
        return None

    @property
    def reference(self) -> Reference | None:
        """The run by which this scheme is measured; None: it needs no other."""
        return None


def model_without_noise(context: PrivacyContext, contributions: Sequence[Contribution]) -> ModelNoise:
    """A model without noise of the server's, of which nothing bounds what a client can change in it."""
    return ModelNoise(
        0.0, dict.fromkeys((one.client for one in contributions or planned_contributions(context)), np.inf)
    )

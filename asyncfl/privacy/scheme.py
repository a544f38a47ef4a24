"""The interface of a privacy scheme: what is clipped, how much noise each client adds, and how much the server adds.

A scheme is an immutable description that returns standard deviations and draws no noise itself. Whatever changes during
a run lives in a `State`, which `start` creates once per seed. For each collection of tasks, in their order, come

1. `State.epsilon` and then `State.record_training` for each task;
2. `State.clip_norm` once, and clipping to that norm;
3. `upload_noise` for each upload;
4. `State.record_collection` once.

Before a model is published, `model_noise` is called with the contributions that it aggregates. With
`needs_every_task`, tasks whose update is lost, late or discarded are trained and recorded as well.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from asyncfl.base.arrays import Vector
from asyncfl.base.component import Component
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.learning.layout import Layout
from asyncfl.learning.training import Training
from asyncfl.privacy.accounting.calibrate import ClassicalRelease
from asyncfl.privacy.client_weights import planned_contributions
from asyncfl.privacy.correlation.factorisation import Factorisation
from asyncfl.privacy.exposures import MeasuredExposures
from asyncfl.privacy.noise import ScoreNoise
from asyncfl.privacy.release import BitNoise, Contribution, Distribution, PrivacyContext, Status, Unit, Upload
from asyncfl.privacy.stop_at import StopAt


@dataclass(frozen=True, slots=True)
class ClipTarget:
    """The part of an upload that is measured, clipped and noised."""

    payload: Literal["model", "update"] = "model"
    """The uploaded model, or its difference from the model that the client was sent."""
    order: Literal[1, 2] = 2  # norm used for clipping: L1 or L2


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise on one upload."""

    std: float  # standard deviation on each parameter, >= 0
    sensitivity: float = np.inf
    """Largest change of the upload between neighbouring data sets, used by all accountants: L2 for Gaussian noise, L1
    for Laplace noise; infinite if nothing bounds it. This is the sensitivity that the noise was calibrated to, or the
    true one where the calibration is known to be wrong."""
    count: int = 1  # number of mechanisms with this noise and sensitivity that the upload consists of, >= 1
    distribution: Distribution = "gaussian"
    epsilon: float | None = None
    """Epsilon claimed for this upload alone; None: the upload's own budget, or an equal share of the scheme's claim."""
    in_training: bool = False
    """Whether the noise was drawn during training, so that nothing is added to the upload."""
    rate: float = 1.0  # probability with which a sample enters each mechanism, see `Release.rate`

    @property
    def upload_std(self) -> float:
        """Standard deviation of all noise added to the upload after training; 0 if it was drawn during training."""
        return 0.0 if self.in_training else self.std * math.sqrt(self.count)


@dataclass(frozen=True, slots=True)
class ModelNoise:
    """Noise that the server adds to one published model."""

    std: float  # standard deviation on each parameter, >= 0
    sensitivities: Mapping[int, float]
    """Client -> largest change of the model caused by that client's data, in the norm of `Noise.sensitivity`."""
    distribution: Distribution = "gaussian"

    @property
    def sensitivity(self) -> float:
        """Largest sensitivity over the clients."""
        return max(self.sensitivities.values())


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy guarantee that a scheme claims for one kind of release (uploads or published models)."""

    unit: Unit  # data in which neighbouring data sets differ
    neighbours: str
    """Neighbouring relation. `replace`: the data of the unit are replaced by other data. `zero_out`: the updates of a
    client count as zero, which stands for removing a client where the number of participants is fixed (Kairouz et al.
    2021, Practical and Private Deep Learning without Sampling or Shuffling). Any other text describes another
    relation."""
    status: Status  # foundation of the sensitivity
    epsilon: float  # epsilon of `releases` releases together; infinite if nothing is claimed
    delta: float  # 0 if nothing is claimed
    releases: int  # number of releases that the claim covers
    at_every_client: bool = False  # whether neighbouring data sets differ at all clients at once

    @property
    def epsilon_per_release(self) -> float:
        """Epsilon of one release if all releases have equal shares; infinite if nothing is claimed."""
        return self.epsilon / self.releases if self.releases else np.inf


class MixingNode(Protocol):
    """A trusted node between the clients and the server that mixes the updates of a buffer."""

    @property
    def seconds(self) -> float:
        """Virtual seconds between the arrival of a buffer's last update and the delivery to the server, >= 0."""
        ...

    @property
    def description(self) -> str:
        """Short description of the mixing, for the trace."""
        ...

    def shuffle(self, models: Vector, layout: Layout, sound: NDArray[np.bool_], random: np.random.Generator) -> None:
        """Mix the `sound` (n,) rows of `models` (n, n_parameters) in place. `layout`: places of the layers in a row."""
        ...


class State:
    """Mutable state of a scheme during one seed. Subclass it with a dataclass of arrays and numbers."""

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        """Return the norm that payloads are clipped to, given the (n,) unclipped, finite `norms` of one collection, n
        >= 1; None: no clipping."""
        return None

    def epsilon(self, client: int, turn: int) -> float | None:
        """Return the budget of the upload from task number `turn` of `client`; None: the same for all uploads."""
        return None

    def record_training(self, contribution: Contribution, loss: float, norm: float) -> None:
        """Record a trained task, once: its mean training loss in the last epoch and the norm of its unclipped
        payload."""

    def record_collection(
        self, contributions: Sequence[Contribution], norms: NDArray[np.float64], random: np.random.Generator
    ) -> None:
        """Record the collection of one aggregation after clipping and noise. `norms`: (n,) before clipping; `random`:
        for noise on what the state learns from it."""


@dataclass
class FixedNorm(State):
    """Clipping to one fixed norm."""

    norm: float | None
    budget: float | None = None  # budget of every upload; None: the scheme's own

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        return self.norm

    def epsilon(self, client: int, turn: int) -> float | None:
        return self.budget


def _share_or_clients(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in value):
            return tuple(sorted(set(value)))
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1:
        return float(value)
    raise ValueError("must be a share of the clients, 0..1 (exclusive), or a list of client numbers")


Curious = Annotated[float | tuple[int, ...], BeforeValidator(_share_or_clients)]


class Scheme(Component):
    """Defines what is clipped and how much noise clients and server add."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.clip_norm",
        "rounds.sigma_u",
        "rounds.sigma_d",
        "rounds.epsilon_naive_max",
        "rounds.epsilon_exact_max",
        "ledger.claimed_epsilon",
        "ledger.exact_epsilon",
        "ledger.provable",
        "ledger.measured",
        "ledger.status",
        "ledger.flags",
        "summary.notes",
    )

    accounts_for_training: ClassVar[bool] = False
    """Whether the noise of an upload is the noise drawn during training (`training.example_noise`)."""
    stop_at: StopAt | None = None
    """Privacy budget at which a client stops taking part. The check comes before the upload that would exceed it; null:
    clients never stop."""
    scores: ScoreNoise | None = None
    """Noise on the scores that a client returns when it is asked to score models; null: none, so that epsilon is
    infinite for each adversary that holds them."""
    curious: Annotated[Curious, MeasuredIn("share or clients")] = 0.0
    """Coalition of curious clients that share the models and updates they receive: a share of all clients, or client
    numbers. The ledger has rows for what the coalition knows of the other clients. Its members follow the protocol."""

    @property
    def clips_gradients(self) -> bool:
        """Whether the noise is calibrated to gradients that training clips to `training.gradient_clip`."""
        return False

    @property
    def off(self) -> bool:
        """Whether nothing is clipped and no noise is added, so that the run is identical to one without privacy."""
        return False

    @property
    def clip_target(self) -> ClipTarget:
        """The payload that is measured, clipped and noised, and the norm used."""
        return ClipTarget()

    @property
    def bounds_uploads(self) -> bool:
        """Whether clipping bounds the influence of a client's data on its upload for any data. Then payloads that are
        not finite are set to zero before the noise is added; otherwise the server rejects them."""
        return False

    def update_factor(self, context: PrivacyContext, samples: int, epochs: int | None = None) -> float:
        """Return the factor that scales an update before measuring, clipping and noise, if updates (not models) are
        clipped. `epochs`: local epochs behind the update; None: all epochs of a task."""
        return 1.0

    @property
    def takes_mean_gradient(self) -> bool:
        """Whether `update_factor` turns the sum of a task's steps into lr times the mean of its gradients, which is so
        for plain steps along gradients alone."""
        return False

    def start(self, context: PrivacyContext) -> State:
        """Create the state of the scheme at the start of a seed."""
        return State()

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return the noise on one upload that was clipped to `clip_norm` (`State.clip_norm`)."""
        return Noise(0.0)

    def bit_noise(self, context: PrivacyContext) -> BitNoise | None:
        """Return the noise on the bits that clients send beside their updates, which `upload_noise` and `model_noise`
        leave out; None: they send none. All noise is then Gaussian."""
        return None

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return the proven sensitivity of an upload in the norm of its noise, which may be below the one that the
        noise was calibrated to; infinite: nothing is proven."""
        return np.inf

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return the server's noise on a model before publication, and the sensitivity of the model to each client.

        `contributions`: the aggregated updates with their weights, possibly several of one client (see
        `client_weights`). Empty before training: one update from each of K clients is assumed.
        """
        return model_without_noise(context, contributions)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """Return a lower bound on the server's noise divided by the influence of one client's updates on a version,
        whatever else enters that version (`Release.multiplier`). None: the scheme states no bound."""
        return None

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """Return the guarantee claimed for the uploads of `client`, or (None) for every client alike; None: no
        claim."""
        return None

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """Return the guarantee claimed for published models; None: no claim."""
        return None

    def flags(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> list[str]:
        """Return the objections to a claimed guarantee: flags from `privacy.flags`, or short texts of the scheme's own.

        `epsilon`: the largest epsilon that one of the releases was calibrated for. The status of the guarantee and
        `classical` are flagged by the caller.
        """
        return []

    def classical(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> ClassicalRelease | None:
        """Return the calibration of one upload or (`of_models`) one published model if its noise is c sqrt(2
        ln(1.25/delta))/epsilon times the sensitivity; otherwise None. A calibration past its limit is flagged."""
        return None

    def notes(self, context: PrivacyContext) -> list[str]:
        """Return sentences that readers of the results must see, besides explanations of the flags."""
        return []

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return the scheme whose noise on one upload corresponds to `epsilon`, and the `training` fields that must
        change with it, for `asyncfl audit reconstruct`.

        `epsilon` > 0; infinite: no noise. `length`: L2 norm of the update as it was sent. Raises ValueError with an
        explanation if no such noise exists.
        """
        if "epsilon" not in type(self).model_fields:
            raise ValueError(
                f"privacy.kind {type(self).__name__} has no field epsilon and no method with_epsilon: its noise "
                "cannot be set by an epsilon"
            )
        return self.model_copy(update={"epsilon": epsilon}), {}

    def faults(self, clients: int, rounds: int, training: Training | None) -> Iterator[Fault]:
        """Yield the faults of this scheme for `clients` clients and `rounds` versions; field names are relative to the
        scheme. `training`: None if its description has faults itself."""
        yield from ()

    def assumed_exposures(self, rounds: int, participants: int, clients: int) -> int | MeasuredExposures:
        """Return L, 0..rounds, the number of uploads of one client that an eavesdropper is assumed to hold, or the
        `MeasuredExposures` by which to measure it."""
        return 0

    @property
    def needs_every_task(self) -> bool:
        """Whether the state must record tasks whose update is never used, which are then trained as well. The clip norm
        must then not depend on the norms of a collection."""
        return False

    @property
    def noise_each_epoch(self) -> bool:
        """Whether clients also add the noise of an upload after each earlier epoch of a task."""
        return False

    @property
    def correlation(self) -> Factorisation | None:
        """Correlation of the server's noise over versions, whose unit is the standard deviation of `model_noise`; None:
        the noise of each version is independent. It must be Gaussian noise of the server alone."""
        return None

    @property
    def mixing_node(self) -> MixingNode | None:
        """Trusted node that mixes the updates of a buffer on their way to the server; None: there is none."""
        return None

    @property
    def reference(self) -> Scheme | None:
        """Scheme of a run that must come first with the same seed, as `settle` needs its uploads; None: no such run."""
        return None

    def settle(self, uploads: Sequence[Upload]) -> Scheme:
        """Return the scheme to be measured, given the uploads of the `reference` run."""
        return self


def model_without_noise(context: PrivacyContext, contributions: Sequence[Contribution]) -> ModelNoise:
    """Return a model without server noise, with unbounded sensitivity to each client that contributed."""
    clients = (one.client for one in contributions or planned_contributions(context))
    return ModelNoise(0.0, dict.fromkeys(clients, np.inf))


def coalition(curious: float | tuple[int, ...], clients: int, streams: Streams) -> frozenset[int]:
    """Return the curious clients among clients 0..clients-1. A share takes the first clients of one random order, so
    that a larger coalition contains every smaller one."""
    if isinstance(curious, tuple):
        return frozenset(curious)
    order = streams.generator("curious").permutation(clients)
    return frozenset(order[: round(curious * clients)].tolist())


def coalition_faults(curious: float | tuple[int, ...], clients: int) -> Iterator[Fault]:
    """Yield a fault for unknown client numbers and for a coalition of all clients; fields relative to the scheme."""
    if not isinstance(curious, tuple):
        return
    if wrong := [one for one in curious if one >= clients]:
        yield Fault("curious", f"must hold client numbers, 0..{clients - 1}, got {wrong[0]}")
    elif len(curious) == clients:
        yield Fault("curious", f"must leave out at least one client, got all {clients} clients")


def stop_notes(scheme: Scheme, leaks: Collection[str] = ()) -> list[str]:
    """Return sentences about the budgets that readers of the results must see. `leaks`: see `Scenario.leaks`."""
    if scheme.stop_at is None:
        return []
    stop_at = scheme.stop_at
    notes = [f"stop_at: clients send no upload that would exceed {stop_at}"]
    if stop_at.adversary == "eavesdropper":
        notes.append(
            "stop_at: only what models may reveal about clients counts, not other messages that a tap overhears"
            if stop_at.of == "models"
            else "stop_at: every message on a tapped link counts as overheard, since no client knows which ones were"
        )
    if stop_at.adversary == "curious":
        notes.append(
            "stop_at: every model counts as sent to curious clients, since no client knows which clients receive it"
        )
    if not scheme.bounds_uploads:
        notes.append("stop_at: rejecting an update that is not finite reveals this fact, which no budget covers")
    notes += [f"stop_at: {flag}, a release that no budget covers" for flag in sorted(leaks)]
    if scheme.needs_every_task:
        notes.append("stop_at: the time at which a client stops depends on its losses, a release that no ledger covers")
    return notes

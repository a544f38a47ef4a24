"""One component of a user's own for each base class there is; `test_own_components` runs a scenario that names them."""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from asyncfl.algorithms import Algorithm
from asyncfl.client.compression import Compression
from asyncfl.data import Dataset, Samples
from asyncfl.data.concept import Concept
from asyncfl.data.partition import Partition
from asyncfl.defences import Bucketing, Detector, Rule, Verdict
from asyncfl.defences.preaggregation import PreAggregation
from asyncfl.learning import Architecture
from asyncfl.privacy import Mechanism, Noise, Scheme
from asyncfl.privacy.correlation import Encoder, Factorisation
from asyncfl.privacy.exposures import Exposures
from asyncfl.protocol.dispatch import AnyDispatch, AnyOpening, ContinuousDispatch, DispatchPolicy, OpenCount, Opening
from asyncfl.protocol.secure_aggregation import RoundTrip, SecureAggregation
from asyncfl.protocol.selection import Selection
from asyncfl.protocol.settings import Late, Protocol
from asyncfl.protocol.staleness import AnyStaleness, ConstantStaleness, Staleness
from asyncfl.secure_aggregation.field import elements_of
from asyncfl.threats import Attack
from asyncfl.world.availability import AlwaysPresent as Online
from asyncfl.world.availability import Availability
from asyncfl.world.devices import Device
from asyncfl.world.distributions import Distribution
from asyncfl.world.failure_detection import FailureDetection
from asyncfl.world.loss import Loss


class Halfspace(Dataset):
    kind: str
    numbers: int = 6

    def load(self) -> Samples:
        x = np.random.default_rng(0).normal(size=(300, self.numbers))
        return Samples(x, (x[:, 0] > 0).astype(int), columns={"sign": np.where(x[:, 1] > 0, "up", "down")})


class Striped(Partition):
    kind: str

    def assign(self, labels: Any, clients: int, samples_per_client: int, rng: Any) -> Any:
        return [np.arange(client, clients * samples_per_client, clients) for client in range(clients)]


class Mirrored(Concept):
    kind: str

    def images(self, images: Any, owners: Any) -> Any:
        return np.where((owners % self.groups > 0)[:, None, None], images[:, :, ::-1], images)


class Softmax(Architecture):
    kind: str

    def module(self, shape: Any, classes: int) -> Any:
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))

    def seconds_per_sample(self, shape: Any, classes: int) -> float:
        return 2.0


class Everyone(DispatchPolicy):
    kind: str

    def level(self, clients: int) -> int:
        return clients


class Latest(Selection):
    kind: str

    def choose(self, count: int, idle: Any, served: Any, random: Any) -> Any:
        return random.permutation(idle[np.argsort(-served, kind="stable")][:count])


class Pairs(Opening):
    kind: str

    def target(self, filling: Any) -> int:
        return 2


class Trusted(SecureAggregation):
    """A node that is trusted with single updates adds them, without masks."""

    kind: str

    def setup(self, members: int, n_parameters: int) -> tuple[RoundTrip, ...]:
        return ()

    def unmasking(self, members: int, updates: int, n_parameters: int) -> RoundTrip:
        return RoundTrip(1, 1)

    def total(self, vectors: Any, work: Any, secrets_of: Any) -> Any:
        return elements_of(np.array(work.weights) @ vectors)


class Slow(Staleness):
    kind: str

    def weight(self, staleness: Any) -> Any:
        return 1 / (1.0 + staleness)


class Eager(Protocol):
    kind: str
    staleness: AnyStaleness = ConstantStaleness()

    late: Late = "carry"

    @property
    def dispatch(self) -> DispatchPolicy:
        return ContinuousDispatch()

    @property
    def opening(self) -> Opening:
        return OpenCount(updates=3)


class Rounds(Protocol):
    kind: str
    dispatch: AnyDispatch
    opening: AnyOpening
    staleness: AnyStaleness
    late: Literal["drop", "carry"] = "drop"


class TwoSpeeds(Device):
    kind: str

    def draw(self, clients: int, rng: Any) -> Any:
        return np.where(np.arange(clients) % 2, 0.001, 0.004)


class Measured(Device):
    kind: str
    path: str

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def draw(self, clients: int, rng: Any) -> Any:
        return np.full(clients, float(Path(self.path).read_text()))


class Coin(Distribution):
    kind: str
    side: float = 0.02

    def draw(self, rng: Any, size: int) -> Any:
        return self.side * (1 + rng.integers(2, size=size))

    def expected(self) -> float:
        return 1.5 * self.side

    def length_biased(self, rng: Any, size: int) -> Any:
        return self.side * (1 + (rng.random(size) < 2 / 3))


class Present(Availability):
    kind: str

    def start(self, traits: Any, streams: Any) -> Any:
        return Online(traits.clients)


class Signs(Compression):
    kind: str

    def payload_bytes(self, n_parameters: int) -> int:
        return 4 + -(-n_parameters // 8)

    def packed(self, update: Any, random: Any) -> bytes:
        return np.abs(update).mean(dtype=np.float32).tobytes() + np.packbits(update > 0).tobytes()

    def unpacked(self, payload: Any, n_parameters: int) -> Any:
        signs = np.unpackbits(np.frombuffer(payload[4:], np.uint8), count=n_parameters).astype(np.float32)
        return (2 * signs - 1) * np.frombuffer(payload[:4], np.float32)


class Halved(Algorithm):
    kind: str

    def apply(self, state: Any, step: Any, accepted: Any) -> Any:
        return step / 2, state


class Delayed(FailureDetection):
    kind: str

    def detected_s(self, gone_s: float, back_s: float) -> float:
        return (gone_s + back_s) / 2


class FirstPacket(Loss):
    kind: str

    def mean_loss(self) -> float:
        return 0.0

    def step(self, state: Any, packets: int, idle_slots: float, rng: Any) -> Any:
        return (1 if state is None else 0), True


class Whisper(Scheme):
    kind: str
    std: float = 0.01

    def upload_noise(self, context: Any, clip_norm: float | None, contribution: Any) -> Noise:
        return Noise(self.std)


class Coarse(Mechanism):
    kind: str
    epsilon: float = 1.0

    @property
    def distribution(self) -> Any:
        return "gaussian"

    @property
    def stated_delta(self) -> float:
        return 1e-5

    def clip_orders(self) -> tuple[int, ...]:
        return (2,)

    def sensitivity(self, distance: float, n_parameters: int) -> float:
        return distance

    def std(self, sensitivity: float, rounds: int) -> float:
        return 5 * sensitivity / self.epsilon


class Halves(Factorisation):
    """C with 1/2 below its diagonal: the noise of each version takes half of the last one's back."""

    kind: str

    def next(self, state: Any, draw: Any) -> Any:
        noise = draw() if state is None else draw() - 0.5 * state
        return noise, noise

    def std(self, version: int, versions: int) -> float:
        return math.sqrt(sum(0.25**lag for lag in range(version)))

    def encoder(self, versions: int) -> Encoder:
        first, later = np.arange(versions), np.arange(versions - 1)
        row, version = np.concatenate([first, later + 1]), np.concatenate([first, later]) + 1
        order = np.argsort(version, kind="stable")
        value = np.concatenate([np.ones(versions), np.full(versions - 1, 0.5)])
        return Encoder(row[order], version[order], value[order], first + 1)


class Twice(Exposures):
    kind: str

    def number(self, rounds: int, participants: int, clients: int) -> int:
        return 2


class Silent(Attack):
    kind: str

    def craft(self, view: Any) -> Any:
        return 0 * view.honest


class Largest(Rule):
    kind: str

    def aggregate(self, updates: Any, weights: Any) -> Any:
        return (weights.sum() * updates[np.argmax(weights)]).astype(np.float32)


class Summed(Rule):
    """The weighted sum, which the server computes itself where a rule says so."""

    kind: str

    @property
    def is_linear(self) -> bool:
        return True

    def aggregate(self, updates: Any, weights: Any) -> Any:
        return weights.astype(np.float32) @ updates


class Midrange(Rule):
    kind: str

    @property
    def is_coordinatewise(self) -> bool:
        return True

    def aggregate(self, updates: Any, weights: Any) -> Any:
        kept = updates[weights > 0]
        if not len(kept):
            return np.zeros(updates.shape[1], dtype=np.float32)
        return (weights.sum() * (kept.min(axis=0) + kept.max(axis=0)) / 2).astype(np.float32)


class PairsOfTwo(PreAggregation):
    kind: str

    def mix(self, updates: Any, shares: Any, random: Any) -> Any:
        if random is None:
            raise ValueError("pairs are drawn in a run")
        return Bucketing(size=2).mix(updates, shares, random)

    def share_out(self, mixing: Any, shares: Any) -> Any:
        return Bucketing(size=2).share_out(mixing, shares)

    def rows(self, collected: int) -> int:
        return Bucketing(size=2).rows(collected)


class Downhill(Detector):
    """Flags what goes uphill on the server's own samples."""

    kind: str

    @property
    def needs_root(self) -> bool:
        return True

    def start(self, context: Any, random: Any) -> Any:
        return context

    def judge(self, state: Any, buffer: Any, scores: Any) -> Any:
        flagged = buffer.deltas @ state.root_gradient(buffer.current) > 0
        return Verdict(flagged, flagged), state

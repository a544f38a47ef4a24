"""Small federations under attack, run with a detector from the first buffer to the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Bools, Floats, Ints, Vector
from asyncfl.base.streams import Streams
from asyncfl.defences import Buffer, DefenceContext, Detector, Mean, Rule, Strikes
from asyncfl.server import Buffered, DefencePlan
from asyncfl.server.defence_state import DefenceState
from asyncfl.testing import digits
from asyncfl.testing.digits import Digits, Skew
from asyncfl.threats import (
    Alie,
    Attack,
    AttackView,
    Backdoor,
    Combined,
    Flooding,
    FreeRider,
    Informed,
    Ipm,
    LabelFlip,
    Mimic,
    MinMax,
    SignFlip,
)

Noise = Literal["none", "usual", "strong"]
"""Noise in each upload: none, with the norm of an early honest update, or with about three times that norm."""
NOISE: dict[Noise, float] = {"none": 0.0, "usual": 0.03, "strong": 0.1}
"""Standard deviation of the noise in each parameter."""


class Framing(Informed):
    """Attack that frames an honest client: uploads oppose the deviation of one honest update from the honest mean.

    That deviation is mostly noise, so the framed client seems to oppose many others. The attack must know the buffer.
    """

    kind: Literal["asyncfl.testing.trials:Framing"] = "asyncfl.testing.trials:Framing"
    factor: float = 0.15
    """Share of the deviation that is subtracted from the mean. With more, certificates would fail."""

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        mean = known.mean(axis=0)
        return np.asarray(mean - self.factor * (known[0] - mean))


ATTACKS: dict[str, Attack] = {
    "label flip": LabelFlip(),
    "sign flip": SignFlip(),
    "Min-Max": MinMax(),
    "ALIE": Alie(),
    "IPM": Ipm(),
    "free rider": FreeRider(),
    "backdoor": Backdoor(),
    "mimic": Mimic(),
    "flooding": Combined(attacks=(LabelFlip(), Flooding(times=5))),
    "framing": Framing(knowledge="buffer"),
}


@dataclass(frozen=True)
class Trial:
    """Settings of one small federation."""

    skew: Skew = "IID"
    attack: str | None = None
    """Name of an attack in ATTACKS; None: no attackers."""
    share: float = 0.0
    """Share of the clients that attack, below 0.5."""
    buffer: int = 10
    noise: Noise = "usual"
    clients: int = 40
    turns: int = 12
    """Mean number of updates per client."""
    root: bool = False
    seed: int = 0

    @property
    def without_attackers(self) -> Trial:
        return replace(self, attack=None, share=0.0)

    @property
    def versions(self) -> int:
        return self.turns * self.clients // self.buffer

    @property
    def attackers(self) -> int:
        return round(self.share * self.clients) if self.attack else 0


COUNTS = ("honest_judged", "honest_flagged", "attacks_judged", "attacks_flagged", "unjudged")


@dataclass(frozen=True)
class TrialResult:
    """Numbers of clients and of bans, numbers of updates judged and flagged or struck, and final accuracy."""

    trial: Trial
    honest: int
    attackers: int
    honest_banned: int
    attackers_banned: int
    honest_judged: int
    honest_flagged: int
    attacks_judged: int
    attacks_flagged: int
    unjudged: int
    accuracy: float


class TrialClients:
    """Clients of a trial, which train, attack and add noise."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.streams = trial, Streams(trial.seed)
        self.data: Digits = _shared_out(trial.skew, trial.clients, trial.seed)
        ranks = self.streams.generator("attackers").permutation(trial.clients)
        self.malicious = np.isin(np.arange(trial.clients), ranks[: trial.attackers])
        self.attack = None if trial.attack is None else ATTACKS[trial.attack]
        self.selection = self.streams.generator("selection")
        self.served = np.zeros(trial.clients)
        self.turns = np.zeros(trial.clients, dtype=np.int64)
        self.held = list(zip(self.data.images, self.data.labels, strict=True))
        if self.attack is not None:
            random = self.streams.generator("poison")
            for client in np.flatnonzero(self.malicious):
                self.held[client] = self.attack.poison(*self.held[client], digits.CLASSES, random)

    def context(self) -> DefenceContext:
        trial, root = self.trial, self.data.root
        return DefenceContext(
            clients=trial.clients,
            samples=self.data.sizes,
            n_parameters=digits.N_PARAMETERS,
            lr=digits.LR,
            gradient_clip=digits.CLIP,
            steps=np.full(trial.clients, digits.STEPS),
            root_gradient=digits.gradient_on(*root) if trial.root else None,
            root_gradients=digits.gradients_by_class(*root) if trial.root else None,
        )

    def next_clients(self, allowed: Bools) -> Ints:
        """Draw the clients of the next buffer, those with the fewest tasks first, relative to their rate.

        `allowed`: (clients,) whether a client may be drawn. A client may occur several times.
        """
        rate = 1.0 if self.attack is None else self.attack.rate
        speed = np.where(self.malicious, rate, 1.0)
        chosen = []
        for _ in range(self.trial.buffer):
            due = np.where(allowed, (self.served + self.selection.exponential(1.0, len(speed))) / speed, np.inf)
            client = int(np.argmin(due))
            self.served[client] += 1
            chosen.append(client)
        return np.array(chosen, dtype=np.int64)

    def buffer(self, clients: Ints, models: list[Vector]) -> Buffer:
        """Build the buffer of uploads of `clients`. `models`: models of all versions, the newest last.

        Batches and noise of a client depend only on its turn, so that a ban does not change those of other clients.
        """
        version, n = len(models) - 1, len(clients)
        turns = self._next_turns(clients)
        ages = np.minimum(self.selection.integers(0, 3, n), version)
        bases = np.stack([models[version - age] for age in ages])
        noise = self._noise(clients, turns)
        deltas = self._crafted(clients, bases, self._trained(clients, bases, turns), noise, models[version], version)
        versions, base_of = np.unique(version - ages, return_inverse=True)
        uploads = (bases + deltas).astype(np.float32)
        uploads.flags.writeable = False
        return Buffer(
            version,
            models[version],
            uploads,
            tuple(models[one] for one in versions),
            base_of.astype(np.int64),
            version - ages,
            clients,
            self.data.sizes[clients],
            np.full(n, NOISE[self.trial.noise]),
        )

    def _next_turns(self, clients: Ints) -> Ints:
        turns = np.empty(len(clients), dtype=np.int64)
        for row, client in enumerate(clients):
            turns[row] = self.turns[client]
            self.turns[client] += 1
        return turns

    def _noise(self, clients: Ints, turns: Ints) -> Vector:
        drawn = np.zeros((len(clients), digits.N_PARAMETERS), dtype=np.float32)
        if std := NOISE[self.trial.noise]:
            for row, (client, turn) in enumerate(zip(clients.tolist(), turns.tolist(), strict=True)):
                self.streams.generator("client_noise", client, turn).standard_normal(dtype=np.float32, out=drawn[row])
            drawn *= np.float32(std)
        return drawn

    def _trained(self, clients: Ints, bases: Vector, turns: Ints) -> Vector:
        number = digits.STEPS * digits.BATCH
        images = np.empty((len(clients), number, digits.PIXELS), dtype=np.float32)
        labels = np.empty((len(clients), number), dtype=np.int64)
        for row, (client, turn) in enumerate(zip(clients.tolist(), turns.tolist(), strict=True)):
            mine, named = self.held[client]
            drawn = self.streams.generator("batches", client, turn).integers(0, len(named), number)
            images[row], labels[row] = mine[drawn].reshape(number, digits.PIXELS), named[drawn]
        shape = (len(clients), digits.STEPS, digits.BATCH)
        return digits.train_clients(bases, images.reshape(*shape, digits.PIXELS), labels.reshape(shape))

    def _crafted(
        self, clients: Ints, bases: Vector, deltas: Vector, noise: Vector, current: Vector, version: int
    ) -> Vector:
        """Return the updates with the attackers' replaced by crafted ones, and with `noise` added to all.

        All arrays but `clients` (n,) and `current` (N_PARAMETERS,), the global model, are (n, N_PARAMETERS). `deltas`:
        updates of honest training; the attackers' rows are overwritten. The sum with `noise` is a new array.
        """
        bad = self.malicious[clients]
        if self.attack is not None and bad.any():
            own = deltas[bad]
            known = {"own": own[:0], "colluders": own, "buffer": (deltas + noise)[~bad]}[self.attack.sees]
            randoms = tuple(self.streams.generator("attack", int(client), version) for client in clients[bad])
            view = AttackView(own, known, bases[bad], current, len(clients), version, randoms)
            crafted = self.attack.craft(view)
            deltas[bad] = own if crafted is None else crafted
        return deltas + noise

    def scores(self, client: int, models: Vector) -> Floats:
        """Score `models` on the data of `client`, (n,) accuracies; an attacker answers 1 minus the accuracy."""
        true = digits.accuracies(models, *self.held[client])
        return 1 - true if self.malicious[client] else true


@lru_cache(maxsize=64)
def _shared_out(skew: Skew, clients: int, seed: int) -> Digits:
    return digits.partition_digits(skew, clients, Streams(seed))


def run_trial(
    trial: Trial,
    detector: Detector | None = None,
    strikes: Strikes | None = None,
    rule: Rule | None = None,
    fallback: Rule | None = None,
) -> TrialResult:
    """Run `trial` on a server with `detector`, `strikes` and aggregation `rule` (None: mean), and return its result.

    `strikes`: rule of bans; None: two strikes within three judged updates. `fallback`: rule where the detector
    abstains; None: `rule`.
    """
    return run_trial_with_predictions(trial, detector, strikes, rule, fallback)[0]


def run_trial_with_predictions(
    trial: Trial,
    detector: Detector | None = None,
    strikes: Strikes | None = None,
    rule: Rule | None = None,
    fallback: Rule | None = None,
) -> tuple[TrialResult, Bools]:
    """Run `trial`; return its result and which test samples the last model classifies correctly, (TESTED,).

    Arguments as in `run_trial`.
    """
    federation = TrialClients(trial)
    protocol = Buffered(rounds=trial.versions, buffer=trial.buffer)
    plan = DefencePlan(rule or Mean(), detector, strikes or Strikes(threshold=2, window=3), fallback=fallback)
    plan = replace(plan, context=replace(federation.context(), linear=plan.is_linear))
    defences = DefenceState(plan, protocol, trial.clients, federation.streams)
    models = [digits.initial_model(federation.streams)]
    banned = np.zeros(trial.clients, dtype=bool)
    counts = dict.fromkeys(COUNTS, 0)
    for _ in range(trial.versions):
        held = federation.buffer(federation.next_clients(~banned), models)
        request = defences.request(held, ())
        scores = None if request is None else federation.scores(request.client, request.models)
        verdict, out = defences.judge(held, scores)
        banned[list(out)] = True
        bad = federation.malicious[held.clients]
        judged = np.ones(len(held), bool) if verdict.unjudged is None else ~verdict.unjudged | verdict.accused
        marked = (judged & ~bad, verdict.accused & ~bad, judged & bad, verdict.accused & bad, ~judged)
        for name, rows in zip(COUNTS, marked, strict=True):
            counts[name] += int(rows.sum())
        models.append(defences.aggregate(held, verdict).model)
        if banned.all():
            break
    wrong = banned & ~federation.malicious
    right = digits.correct_predictions(models[-1][None], *federation.data.test)[0]
    result = TrialResult(
        trial,
        trial.clients - trial.attackers,
        trial.attackers,
        int(wrong.sum()),
        int((banned & ~wrong).sum()),
        **counts,
        accuracy=float(right.mean()),
    )
    return result, right

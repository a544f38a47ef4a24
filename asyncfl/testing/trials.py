"""Small federations under attack, run with a detector from the first buffer to the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl import threats
from asyncfl.base.messages import Bools, Floats, Ints, Vector
from asyncfl.base.streams import Streams
from asyncfl.defences import Buffer, DefenceContext, Detector, Mean, Rule, Strikes
from asyncfl.server import Buffered, DefencePlan
from asyncfl.server.aggregation import DefenceState
from asyncfl.testing import digits
from asyncfl.testing.digits import Skew
from asyncfl.threats import Attack, AttackView, Informed

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
    "label flip": threats.LabelFlip(),
    "sign flip": threats.SignFlip(),
    "Min-Max": threats.MinMax(),
    "ALIE": threats.Alie(),
    "IPM": threats.Ipm(),
    "free rider": threats.FreeRider(),
    "backdoor": threats.Backdoor(),
    "mimic": threats.Mimic(),
    "flooding": threats.Combined(attacks=(threats.LabelFlip(), threats.Flooding(times=5))),
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
        self.data = digits.partition_digits(trial.skew, trial.clients, trial.seed)
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
        images, labels = self.data.root
        each = [digits.gradient_on(images[labels == label], labels[labels == label]) for label in np.unique(labels)]
        return DefenceContext(
            clients=self.trial.clients,
            samples=self.data.sizes,
            n_parameters=digits.N_PARAMETERS,
            lr=digits.LR,
            gradient_clip=digits.CLIP,
            steps=np.full(self.trial.clients, digits.STEPS),
            root_gradient=digits.gradient_on(images, labels) if self.trial.root else None,
            root_gradients=(lambda model: np.stack([of(model) for of in each])) if self.trial.root else None,
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
        version, n, std = len(models) - 1, len(clients), NOISE[self.trial.noise]
        ages = np.minimum(self.selection.integers(0, 3, n), version)
        bases = np.stack([models[version - age] for age in ages])
        shape = (n, digits.STEPS, digits.BATCH)
        images, labels = np.empty((*shape, digits.PIXELS), dtype=np.float32), np.empty(shape, dtype=np.int64)
        noise = np.zeros((n, digits.N_PARAMETERS), dtype=np.float32)
        for row, client in enumerate(clients.tolist()):
            turn = int(self.turns[client])
            self.turns[client] += 1
            mine, named = self.held[client]
            drawn = self.streams.generator("batches", client, turn).integers(0, len(named), shape[1:])
            images[row], labels[row] = mine[drawn].reshape(images[row].shape), named[drawn]
            if std:
                self.streams.generator("client_noise", client, turn).standard_normal(dtype=np.float32, out=noise[row])
        noise *= np.float32(std)
        deltas = digits.train_clients(bases, images, labels)
        bad = self.malicious[clients]
        if self.attack is not None and bad.any():
            own = deltas[bad]
            known = {"own": own[:0], "colluders": own, "buffer": (deltas + noise)[~bad]}[self.attack.sees]
            randoms = tuple(self.streams.generator("attack", int(client), version) for client in clients[bad])
            view = AttackView(own, known, bases[bad], models[version], n, version, randoms)
            crafted = self.attack.craft(view)
            deltas[bad] = own if crafted is None else crafted
        versions, base_of = np.unique(version - ages, return_inverse=True)
        uploads = (bases + (deltas + noise)).astype(np.float32)
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
            np.full(n, std),
        )

    def scores(self, client: int, models: Vector) -> Floats:
        """Score `models` on the data of `client`, (n,) accuracies; an attacker answers 1 minus the accuracy."""
        true: Floats = digits.correct_predictions(models, *self.held[client]).mean(axis=1)
        return 1 - true if self.malicious[client] else true


def run_trial(
    trial: Trial,
    detector: Detector | None = None,
    strikes: Strikes | None = None,
    fallback: Rule | None = None,
) -> tuple[TrialResult, Bools]:
    """Run `trial` on a server that takes the mean, with `detector` and `strikes`.

    Returns the result, and which test samples the last model classifies correctly, (TESTED,). `strikes`: rule of bans;
    None: two strikes within three judged updates. `fallback`: rule where the detector abstains; None: the mean.
    """
    federation = TrialClients(trial)
    protocol = Buffered(rounds=trial.versions, buffer=trial.buffer)
    plan = DefencePlan(Mean(), detector, strikes or Strikes(threshold=2, window=3), fallback=fallback)
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

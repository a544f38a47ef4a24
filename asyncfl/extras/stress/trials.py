"""Small federations under attack that train a hundred times per minute: 8 x 8 digits and a tiny network.

There is no clock and no privacy scheme: the clients of a buffer and the staleness of their models are drawn, and noise
of a given standard deviation is added to each upload. Data are scikit-learn's digits; attacks and defences are those of
real runs. All clients of a buffer are trained at once by batched matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl import threats
from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.streams import Streams
from asyncfl.data.partition import Dirichlet, Iid, Partition, Quantity, Shards
from asyncfl.defences import Buffer, DefenceContext, Detector, Mean, Rule, Strikes
from asyncfl.protocol import Buffered, DefencePlan
from asyncfl.protocol.aggregation import DefenceState
from asyncfl.threats import Attack, AttackView, Informed, Rhythm, Threats, backdoor_test_set

Skew = Literal["IID", "Dirichlet 1", "Dirichlet .5", "Dirichlet .3", "Dirichlet .1", "shards", "quantity", "domains"]
"""Heterogeneity of the clients' data. `domains`: the digits of each quarter of the clients are rotated by another
multiple of 90 degrees."""

PARTITIONS: dict[str, Partition] = {
    "IID": Iid(),
    "Dirichlet 1": Dirichlet(alpha=1),
    "Dirichlet .5": Dirichlet(alpha=0.5),
    "Dirichlet .3": Dirichlet(alpha=0.3),
    "Dirichlet .1": Dirichlet(alpha=0.1),
    "shards": Shards(),
    "quantity": Quantity(),
    "domains": Iid(),
}
SIDE, CLASSES, HIDDEN = 8, 10, 16
PIXELS = SIDE * SIDE
N_PARAMETERS = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
SAMPLES = 60  # mean number of training samples per client
ROOT, TESTED = 100, 400
"""Samples in the server's root set and in the test set. No client has any of them."""
STEPS, BATCH, LR, CLIP = 5, 20, 0.3, 1.0
"""Training of a task: steps of SGD, samples per step, learning rate, L2 norm to which each gradient is clipped."""


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 8, 8) and labels (n,) of each client, of the server's root set and of the test set."""

    images: tuple[NDArray[np.float32], ...]
    labels: tuple[Ints, ...]
    root: tuple[NDArray[np.float32], Ints]
    test: tuple[NDArray[np.float32], Ints]

    @property
    def sizes(self) -> Ints:
        return np.array([len(labels) for labels in self.labels], dtype=np.int64)


@cache
def _all_digits() -> tuple[NDArray[np.float32], Ints]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return (digits.images / 16 - 0.5).astype(np.float32)[:, None], digits.target.astype(np.int64)


@lru_cache(maxsize=64)
def partition_digits(skew: Skew, clients: int, seed: int) -> Digits:
    """Split the digits into the root set, the test set, and the training sets of `clients` clients.

    A digit of the clients is used up to five times: as it is, and shifted by a pixel. With the skew `domains`, the
    images of each quarter of the clients, and of the test set, are also rotated.
    """
    (images, labels), streams = _all_digits(), Streams(seed)
    order = streams.generator("test_split").permutation(len(labels))
    root, test, rest = np.split(order, [ROOT, ROOT + TESTED])
    moves = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))
    more = np.concatenate([np.roll(images[rest], move, axis=(2, 3)) for move in moves])
    classes = np.tile(labels[rest], len(moves))
    shares = PARTITIONS[skew].assign(classes, clients, SAMPLES, streams.generator("partition"))

    def turned(images: NDArray[np.float32], turn: int) -> NDArray[np.float32]:
        return np.ascontiguousarray(np.rot90(images, turn % 4 if skew == "domains" else 0, axes=(2, 3)))

    return Digits(
        tuple(turned(more[share], client) for client, share in enumerate(shares)),
        tuple(classes[share] for share in shares),
        (images[root], labels[root]),
        (
            np.concatenate([turned(images[test[part::4]], part) for part in range(4)]),
            np.concatenate([labels[test[part::4]] for part in range(4)]),
        ),
    )


def initial_model(streams: Streams) -> Vector:
    """Draw the initial model, (N_PARAMETERS,): weights from N(0, 1 / inputs), biases 0."""
    random = streams.generator("initial_model")
    first = random.standard_normal(PIXELS * HIDDEN) / np.sqrt(PIXELS)
    second = random.standard_normal(HIDDEN * CLASSES) / np.sqrt(HIDDEN)
    parts = (first, np.zeros(HIDDEN), second, np.zeros(CLASSES))
    return np.concatenate(parts).astype(np.float32)


def _layers(models: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Split `models` (n, N_PARAMETERS) into the weights and biases of both layers, with n as first dimension."""
    cuts = np.cumsum([PIXELS * HIDDEN, HIDDEN, HIDDEN * CLASSES])
    one, first, two, second = np.split(models, cuts, axis=1)
    n = len(models)
    return one.reshape(n, PIXELS, HIDDEN), first[:, None], two.reshape(n, HIDDEN, CLASSES), second[:, None]


def gradients(models: Vector, images: NDArray[np.float32], labels: Ints) -> Vector:
    """Compute the gradients of the mean cross-entropy of `models`, both (n, N_PARAMETERS).

    `images`: (n, batch, PIXELS); `labels`: (n, batch).
    """
    one, first, two, second = _layers(models)
    hidden = np.maximum(images @ one + first, 0)
    scores = hidden @ two + second
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))
    wrong = scores / scores.sum(axis=2, keepdims=True)
    np.put_along_axis(wrong, labels[:, :, None], np.take_along_axis(wrong, labels[:, :, None], axis=2) - 1, axis=2)
    wrong /= labels.shape[1]
    back = (wrong @ two.transpose(0, 2, 1)) * (hidden > 0)
    n = len(models)
    parts = (
        (images.transpose(0, 2, 1) @ back).reshape(n, -1),
        back.sum(axis=1),
        (hidden.transpose(0, 2, 1) @ wrong).reshape(n, -1),
        wrong.sum(axis=1),
    )
    return np.concatenate(parts, axis=1).astype(np.float32)


def train_clients(bases: Vector, images: NDArray[np.float32], labels: Ints) -> Vector:
    """Train `bases` for STEPS steps and return the updates, both (n, N_PARAMETERS).

    `images`: (n, STEPS, BATCH, PIXELS). `labels`: (n, STEPS, BATCH).
    """
    models = bases.copy()
    for step in range(STEPS):
        descent = gradients(models, images[:, step], labels[:, step])
        lengths = np.sqrt(np.einsum("ij,ij->i", descent, descent))
        models -= (LR / np.maximum(lengths / CLIP, 1.0))[:, None].astype(np.float32) * descent
    return models - bases


def gradient_on(images: NDArray[np.float32], labels: Ints) -> Callable[[Vector], Vector]:
    """Return a function from a model (N_PARAMETERS,) to its gradient on these samples, images (n, 1, 8, 8)."""
    rows = images.reshape(1, len(images), PIXELS)
    return lambda model: gradients(model[None], rows, labels[None])[0]


def correct_predictions(models: Vector, images: NDArray[np.float32], labels: Ints) -> Bools:
    """Return which of `images` (m, 1, 8, 8) each of `models` (n, N_PARAMETERS) classifies correctly, (n, m)."""
    one, first, two, second = _layers(np.asarray(models, dtype=np.float32))
    hidden = np.maximum(images.reshape(1, len(images), PIXELS) @ one + first, 0)
    return np.asarray((hidden @ two + second).argmax(axis=2) == labels)


Noise = Literal["none", "usual", "strong"]
"""Noise in each upload: none, with the norm of an early honest update, or with about three times that norm."""
NOISE: dict[Noise, float] = {"none": 0.0, "usual": 0.03, "strong": 0.1}
"""Standard deviation of the noise in each parameter."""


class Framing(Informed):
    """Attack that frames an honest client: uploads oppose the deviation of one honest update from the honest mean.

    That deviation is mostly noise, so the framed client seems to oppose many others. The attack must know the buffer.
    """

    kind: Literal["asyncfl.extras.stress.trials:Framing"] = "asyncfl.extras.stress.trials:Framing"
    factor: float = 0.15
    """Share of the deviation that is subtracted from the mean. With more, certificates would fail."""

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        mean = known.mean(axis=0)
        return np.asarray(mean - self.factor * (known[0] - mean))


_FLIP = threats.LabelFlip()
_ATTACKS: dict[str, Attack] = {
    "label flip": _FLIP,
    "sign flip": threats.SignFlip(),
    "Min-Max": threats.MinMax(),
    "ALIE": threats.Alie(),
    "IPM": threats.Ipm(),
    "free rider": threats.FreeRider(),
    "backdoor": threats.Backdoor(),
    "mimic": threats.Mimic(),
    "flooding": threats.Combined(attacks=(_FLIP, threats.Flooding(times=5))),
    "framing": Framing(knowledge="buffer"),
    "rotated labels": threats.LabelFlip(to="next"),
    "permuted labels": threats.LabelFlip(to="permuted"),
    "random labels": threats.LabelFlip(to="random"),
    "weak labels": threats.LabelFlip(share=0.5),
    "last layer": threats.SignFlip(of="last_layer"),
    "slow drift": threats.Ipm(versions=12),
    "spread": threats.Combined(attacks=(_FLIP, threats.Spread())),
    "sleeping": _FLIP,
    "less noise": _FLIP,
    "veto": threats.Veto(attack=threats.Ipm()),
    "blind minority": threats.Minority(),
    "buffer minority": threats.Minority(knowledge="buffer"),
    "orthogonal": threats.Orthogonal(),
    "puller": threats.Puller(),
    "boosted backdoor": threats.Backdoor(factor="replacement"),
    "orthogonal backdoor": threats.Combined(attacks=(threats.Backdoor(), threats.Orthogonal(along=1, across=-5))),
}
_CONDUCT: dict[str, Any] = {
    "sleeping": {"rhythm": Rhythm(asleep=3, awake=2)},
    "less noise": {"attackers_add_noise": False},
}
ATTACKS = {name: Threats(attack=one, attackers=0, **_CONDUCT.get(name, {})) for name, one in _ATTACKS.items()}
"""Attacks by name; the number of attackers is that of a trial."""


@dataclass(frozen=True)
class Trial:
    """Settings of one small federation."""

    skew: Skew = "IID"
    attack: str | None = None  # name of an attack in ATTACKS; None: no attackers
    share: float = 0.0  # share of the clients that attack, below 0.5
    buffer: int = 10
    noise: Noise = "usual"
    clients: int = 40
    turns: int = 12  # mean number of updates per client
    root: bool = False
    seed: int = 0

    @property
    def versions(self) -> int:
        return self.turns * self.clients // self.buffer

    @property
    def attackers(self) -> int:
        return round(self.share * self.clients) if self.attack else 0


COUNTS = (
    *("honest_judged", "honest_flagged", "attacks_judged", "attacks_flagged"),
    *("honest_unjudged", "attacks_unjudged"),
)


@dataclass(frozen=True)
class TrialResult:
    """Numbers of clients and of bans, of updates judged, flagged or struck, and not judged, and final accuracy."""

    trial: Trial
    honest: int
    attackers: int
    honest_banned: int
    attackers_banned: int
    honest_judged: int
    honest_flagged: int
    attacks_judged: int
    attacks_flagged: int
    honest_unjudged: int
    attacks_unjudged: int
    accuracy: float
    attack_success: float = math.nan
    """Share of triggered test images that the final model takes for the backdoor's target, 0..1; NaN: no backdoor."""


class TrialClients:
    """Clients of a trial, which train, attack and add noise."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.streams = trial, Streams(trial.seed)
        self.data = partition_digits(trial.skew, trial.clients, trial.seed)
        ranks = self.streams.generator("attackers").permutation(trial.clients)
        self.malicious = np.isin(np.arange(trial.clients), ranks[: trial.attackers])
        self.threats = None if trial.attack is None else ATTACKS[trial.attack]
        self.selection = self.streams.generator("selection")
        self.served = np.zeros(trial.clients)
        self.turns = np.zeros(trial.clients, dtype=np.int64)
        self.own = list(zip(self.data.images, self.data.labels, strict=True))
        self.poisoned = list(self.own)
        self.ranks = np.cumsum(self.malicious) - 1
        if self.threats is not None:
            random = self.streams.generator("poison")
            for client in np.flatnonzero(self.malicious):
                self.poisoned[client] = self.threats.attack.poison(*self.own[client], CLASSES, random)

    def context(self) -> DefenceContext:
        images, labels = self.data.root
        each = [gradient_on(images[labels == label], labels[labels == label]) for label in np.unique(labels)]
        return DefenceContext(
            clients=self.trial.clients,
            samples=self.data.sizes,
            n_parameters=N_PARAMETERS,
            lr=LR,
            gradient_clip=CLIP,
            steps=np.full(self.trial.clients, STEPS),
            root_gradient=gradient_on(images, labels) if self.trial.root else None,
            root_gradients=(lambda model: np.stack([of(model) for of in each])) if self.trial.root else None,
        )

    def next_clients(self, allowed: Bools) -> Ints:
        """Draw the clients of the next buffer, those with the fewest tasks first, relative to their rate.

        `allowed`: (clients,) whether a client may be drawn. A client may occur several times.
        """
        rate = 1.0 if self.threats is None else self.threats.attack.rate
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
        shape = (n, STEPS, BATCH)
        images, labels = np.empty((*shape, PIXELS), dtype=np.float32), np.empty(shape, dtype=np.int64)
        noise = np.zeros((n, N_PARAMETERS), dtype=np.float32)
        bad = np.zeros(n, dtype=bool)
        for row, client in enumerate(clients.tolist()):
            turn = int(self.turns[client])
            self.turns[client] += 1
            if self.threats is not None and self.malicious[client]:
                bad[row] = self.threats.active(int(version - ages[row]), turn)
            mine, named = self.poisoned[client] if bad[row] else self.own[client]
            drawn = self.streams.generator("batches", client, turn).integers(0, len(named), shape[1:])
            images[row], labels[row] = mine[drawn].reshape(images[row].shape), named[drawn]
            if std and (self.threats is None or not bad[row] or self.threats.attackers_add_noise):
                self.streams.generator("client_noise", client, turn).standard_normal(dtype=np.float32, out=noise[row])
        noise *= np.float32(std)
        deltas = train_clients(bases, images, labels)
        if self.threats is not None and bad.any():
            attack, own, senders = self.threats.attack, deltas[bad], clients[bad]
            known = {"own": own[:0], "colluders": own, "buffer": (deltas + noise)[~bad]}[attack.sees]
            view = AttackView(
                own,
                known,
                bases[bad],
                models[version],
                n,
                version,
                tuple(self.streams.generator("attack", int(client), version) for client in senders),
                class_gradients=self._class_gradients,
                last_layer=HIDDEN * CLASSES + CLASSES,
                ranks=tuple(self.ranks[senders].tolist()),
            )
            crafted = attack.craft(view)
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

    def _class_gradients(self, model: Vector) -> Vector:
        """Compute the gradient on the attackers' samples of each class, (CLASSES, N_PARAMETERS)."""
        held = [self.own[client] for client in np.flatnonzero(self.malicious)]
        images, labels = (np.concatenate(part) for part in zip(*held, strict=True))
        of_class = [labels == label for label in range(CLASSES)]
        none = np.zeros(N_PARAMETERS, dtype=np.float32)
        return np.stack([gradient_on(images[of], labels[of])(model) if of.any() else none for of in of_class])

    def attack_success(self, model: Vector) -> float:
        """Return the share of triggered test images that `model` takes for the target, 0..1; NaN: no backdoor."""
        triggered = None if self.threats is None else backdoor_test_set(self.threats.attack, *self.data.test)
        return math.nan if triggered is None else float(correct_predictions(model[None], *triggered).mean())

    def scores(self, client: int, models: Vector) -> Floats:
        """Score `models` on the data of `client`, (n,) accuracies; an attacker answers 1 minus the accuracy."""
        true: Floats = correct_predictions(models, *self.poisoned[client]).mean(axis=1)
        return 1 - true if self.malicious[client] else true


def run_trial(
    trial: Trial, detector: Detector | None = None, strikes: Strikes | None = None, fallback: Rule | None = None
) -> TrialResult:
    """Run `trial` on a server that takes the mean, with `detector` and `strikes`, and return the result.

    `strikes`: rule of bans; None: two strikes within three judged updates. `fallback`: rule where the detector
    abstains; None: the mean.
    """
    federation = TrialClients(trial)
    protocol = Buffered(rounds=trial.versions, buffer=trial.buffer)
    plan = DefencePlan(Mean(), detector, strikes or Strikes(threshold=2, window=3), fallback=fallback)
    plan = replace(plan, context=replace(federation.context(), linear=plan.is_linear))
    defences = DefenceState(plan, protocol, trial.clients, federation.streams)
    models = [initial_model(federation.streams)]
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
        marked = (judged & ~bad, verdict.accused & ~bad, judged & bad, verdict.accused & bad)
        for name, rows in zip(COUNTS, (*marked, ~judged & ~bad, ~judged & bad), strict=True):
            counts[name] += int(rows.sum())
        models.append(defences.aggregate(held, verdict).model)
        if banned.all():
            break
    wrong = banned & ~federation.malicious
    return TrialResult(
        trial,
        trial.clients - trial.attackers,
        trial.attackers,
        int(wrong.sum()),
        int((banned & ~wrong).sum()),
        **counts,
        accuracy=float(correct_predictions(models[-1][None], *federation.data.test).mean()),
        attack_success=federation.attack_success(models[-1]),
    )

"""What would tell attackers from honest clients whose labels differ: a jury of clients, clean samples, or histories?

    python benchmarks/jury.py                      # how well each tells clients apart, where all updates are let in
    python benchmarks/jury.py --loop               # final accuracy with a jury that leaves out and bans

A jury: nine clients drawn at random score each update of a buffer by its inner product with minus their own gradient,
clipped to length 1. An update's score is the mean of nine, a client's the sum over its updates. `lying` jurors negate
what they find, `poisoned` ones score by the data that they train on; of `vetted` ones only those are heard whose scores
so far go along with those of 100 clean samples. Beside them stand these samples themselves, the detector by evidence,
FLDetector, and how far the updates of a client fall in two groups. Scores cost neither time, traffic nor privacy here:
this is the most that such a jury can do.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from asyncfl.base.messages import Vector
from asyncfl.defences import Buffer, DefenceContext, Detector, Evidence, FLDetector, Strikes, Verdict
from asyncfl.defences.evidence.gain_history import GainHistory, empty_history
from asyncfl.defences.evidence.side_test import SideTest
from asyncfl.federation import Federation
from asyncfl.scenario import Scenario
from asyncfl.server.model_step import ModelStep
from asyncfl.simulation import simulate_seed

Floats = NDArray[np.float64]
JURORS = 9
VETTED = 0.3
"""Correlation with the clean samples' scores from which on a juror is heard."""
LIARS = (0.0, 0.1, 0.2, 0.3, 0.4)
"""Shares of all clients that lie as jurors; they are among the attackers."""
ATTACKS: dict[str, dict[str, Any]] = {
    "label flip": {"attack": {"kind": "label_flip"}},
    "sign flip": {"attack": {"kind": "sign_flip"}},
    "sleeping label flip": {"attack": {"kind": "label_flip"}, "rhythm": {"asleep": 3, "awake": 2}},
}


def scenario(attack: str, versions: int) -> Scenario:
    """100 clients with skewed labels, 40 of whom attack, noise of epsilon 6 in each upload."""
    return Scenario.read(
        {
            "data": {
                "dataset": "mnist", "clients": 100, "samples_per_client": 600, "scaling": "unit",
                "test_samples": 9900, "partition": {"kind": "dirichlet", "alpha": 0.5},
            },
            "model": {"kind": "mlp", "hidden": [32]},
            "training": {"lr": 0.01, "batch_size": 32, "gradient_clip": 1.0},
            "protocol": {
                "kind": "buffered", "rounds": versions, "buffer": 10,
                "dispatch": {"kind": "constant", "in_flight": 20}, "selection": {"kind": "fair"},
            },
            "privacy": {"kind": "local_gaussian", "epsilon": 6, "delta": 1e-5, "clip_norm": 1.0},
            "threats": {**ATTACKS[attack], "attackers": 0.4},
            "defence": {"root_samples": 100},
            "evaluation": {"train_every": 0, "test_every": 0},
        }
    )  # fmt: skip


class Jury:
    """What clients would answer."""

    def __init__(self, federation: Federation, random: np.random.Generator) -> None:
        self.federation, self.random = federation, random
        members = () if federation.attackers is None else federation.attackers.members
        self.malicious = np.isin(np.arange(federation.data.clients), list(members))

    def draw(self, absent: frozenset[int] = frozenset()) -> NDArray[np.int64]:
        """(JURORS,) clients."""
        left = np.setdiff1d(np.arange(len(self.malicious)), list(absent))
        return self.random.choice(left, JURORS, replace=False)

    def scores(self, buffer: Buffer, jurors: NDArray[np.int64], poisoned: bool = False) -> Floats:
        """(n_updates, jurors) true scores; `poisoned`: of attackers those by the data that they train on."""
        gradients = np.stack([self._gradient(int(juror), buffer.current, poisoned) for juror in jurors])
        return -(buffer.deltas.astype(np.float64) @ gradients.T)

    def _gradient(self, client: int, model: Vector, poisoned: bool) -> Floats:
        images, labels = self.federation.data.client(client)
        if poisoned and self.malicious[client] and self.federation.attackers is not None:
            images, labels = self.federation.attackers.poisoned(client, images, labels)
        gradient = self.federation.learner.gradient(model, images, labels).astype(np.float64)
        return np.asarray(gradient / max(1.0, float(np.linalg.norm(gradient))))


@dataclass
class Vetting:
    """How the scores of each client go along with those of the clean samples, so far. Arrays are (clients,)."""

    along: Floats
    most: Floats

    def heard(self, jurors: NDArray[np.int64], said: Floats, clean: Floats) -> NDArray[np.bool_]:
        """(jurors,) who is heard, after what they `said` (n_updates, jurors) is compared with `clean` (n_updates,)."""
        self.along[jurors] += said.T @ clean
        self.most[jurors] += np.linalg.norm(said, axis=0) * np.linalg.norm(clean)
        return np.asarray(self.along[jurors] > VETTED * self.most[jurors])


@dataclass
class Study:
    """Looks on while everything is let in, and keeps for each client the sum of its scores of each kind."""

    jury: Jury
    context: DefenceContext
    sums: dict[str, Floats] = field(default_factory=dict)
    singles: dict[str, list[Floats]] = field(default_factory=dict)
    senders: list[NDArray[np.int64]] = field(default_factory=list)
    sent: dict[int, list[Vector]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, nothing = self.context.clients, np.random.default_rng(0)
        self.detectors: list[Any] = [Evidence(root=False), Evidence(), FLDetector()]
        self.states = [detector.start(self.context, nothing) for detector in self.detectors]
        self.vetting = Vetting(np.zeros(n), np.zeros(n))
        attackers = np.flatnonzero(self.jury.malicious)
        self.liars = {share: attackers[: round(share * n)] for share in LIARS}

    def __call__(self, buffer: Buffer, tasks: tuple[int, ...], verdict: Verdict, outcome: ModelStep) -> None:
        """Score a buffer in every way."""
        jurors = self.jury.draw()
        true, by_poison = self.jury.scores(buffer, jurors), self.jury.scores(buffer, jurors, poisoned=True)
        found = {}
        for share, liars in self.liars.items():
            said = np.where(np.isin(jurors, liars), -true, true)
            found[f"jury, {share:.0%} lying"] = said.mean(axis=1)
        found["jury, median, 0% lying"] = np.median(true, axis=1)
        found["jury, 40% poisoned"] = by_poison.mean(axis=1)
        assert self.context.root_gradient is not None
        clean = -(buffer.deltas.astype(np.float64) @ self.context.root_gradient(buffer.current))
        heard = self.vetting.heard(jurors, said, clean)
        found["jury, 40% lying, vetted"] = said[:, heard].mean(axis=1) if heard.any() else np.zeros(len(buffer))
        found["gradient of 100 clean samples"] = clean
        for name, scores in found.items():
            self.singles.setdefault(name, []).append(scores)
            np.add.at(self.sums.setdefault(name, np.zeros(self.context.clients)), buffer.clients, scores)
        self.senders.append(buffer.clients)
        for place, detector in enumerate(self.detectors):
            self.states[place] = detector.judge(self.states[place], buffer, None)[1]
        for client, delta in zip(buffer.clients.tolist(), buffer.deltas, strict=True):
            self.sent.setdefault(client, []).append(delta)

    def told(self) -> dict[str, tuple[float, float]]:
        """Name -> probability that a single update, and that a client, of an attacker is below an honest one."""
        bad, senders = self.jury.malicious, np.concatenate(self.senders)
        seen = np.isin(np.arange(len(bad)), senders)
        found = {
            name: (auc(np.concatenate(self.singles[name]), bad[senders]), auc(np.where(seen, sums, np.nan), bad))
            for name, sums in self.sums.items()
        }
        for name, place, histories in (("evidence", 0, slice(None)), ("evidence, 100 clean samples", 1, slice(1))):
            sides = [SideTest().judge(history, frozenset(), 1) for history in self.states[place].histories[histories]]
            found[name] = (np.nan, auc(max(sides, key=lambda one: one.along).share, bad))
        suspicion = np.full(len(bad), np.nan)
        for client, scores in self.states[2].scores.items():
            suspicion[client] = -np.mean(scores)
        found["FLDetector"] = (np.nan, auc(suspicion, bad))
        halves = np.full(len(bad), np.nan)
        for client, updates in self.sent.items():
            if len(updates) > 3:
                halves[client] = -falls_in_two(np.stack(updates).astype(np.float64))
        found["own updates in two groups"] = (np.nan, auc(halves, bad))
        return found


def falls_in_two(updates: Floats) -> float:
    """The leading eigenvalue of the products of updates (n, d) less their mean, without those of each with itself."""
    centred = updates - updates.mean(axis=0)
    products = centred @ centred.T
    np.fill_diagonal(products, 0.0)
    return float(np.linalg.eigvalsh(products)[-1])


def auc(scores: Floats, bad: NDArray[np.bool_]) -> float:
    """Probability that one of the `bad` (n,) is below another, ties half; scores that are NaN do not count."""
    known = np.isfinite(scores)
    ranks, wrong = rankdata(scores[known]), bad[known]
    few, many = int(wrong.sum()), int((~wrong).sum())
    return float((ranks[~wrong].sum() - many * (many + 1) / 2) / (few * many)) if few and many else float("nan")


@dataclass(frozen=True)
class JuryState:
    """What the detector below remembers."""

    history: GainHistory
    vetting: Vetting
    usual: float = 0.0
    """Fading mean of the median score, by which updates are weighed that come later."""
    banned: frozenset[int] = frozenset()


class ByJury(Detector):
    """Leaves out and strikes by the jury's scores as the detector by evidence does by its directions."""

    kind: str = "jury:ByJury"
    lying: float = 0.0
    vetted: bool = False

    def start(self, context: DefenceContext, random: np.random.Generator) -> JuryState:
        """See `Detector.start`."""
        zeros = np.zeros(context.clients)
        return JuryState(empty_history(context.clients, 32), Vetting(zeros, zeros.copy()))

    @property
    def abstains(self) -> bool:
        """As long as no side is certified."""
        return True

    def judge(self, state: JuryState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, JuryState]:
        """See `Detector.judge`."""
        jury, context = ASKED[-1]
        jurors = jury.draw(state.banned)
        liars = np.flatnonzero(jury.malicious)[: round(self.lying * len(jury.malicious))]
        said = jury.scores(buffer, jurors)
        said[:, np.isin(jurors, liars)] *= -1
        heard = np.ones(len(jurors), dtype=bool)
        if self.vetted:
            assert context.root_gradient is not None
            clean = -(buffer.deltas.astype(np.float64) @ context.root_gradient(buffer.current))
            heard = state.vetting.heard(jurors, said, clean)
        history, usual, n = state.history, state.usual, len(buffer)
        if heard.any():
            mean = said[:, heard].mean(axis=1)
            for row, client in enumerate(buffer.clients.tolist()):
                if usual > 0:
                    # No mean of clipped gradients is longer than 1, so neither is the noise along it.
                    noise = (float(buffer.upload_std[row]) * usual) ** 2
                    history = history.add(client, float(mean[row]) * usual, usual**2, noise)
            usual = 0.8 * usual + 0.2 * float(np.median(mean))
        sides = SideTest().judge(history, state.banned, 1)
        nobody = np.zeros(n, dtype=bool)
        out = sides.out[buffer.clients] if sides.certified else nobody
        struck = sides.struck[buffer.clients] if sides.certified else nobody
        following = replace(state, history=history, usual=usual)
        unjudged = nobody if sides.certified else ~nobody
        return Verdict(out, struck, unjudged=unjudged, notes={"along": float(sides.along)}), following

    def forget_client(self, state: JuryState, client: int) -> JuryState:
        """See `Detector.banned`."""
        return replace(state, history=state.history.forget(client), banned=state.banned | {client})


ASKED: list[tuple[Jury, DefenceContext]] = []
"""Whom the detector asks: the clients of the run that was begun last."""


def context_of(federation: Federation) -> DefenceContext:
    """What its defences know."""
    assert federation.plan.defence.context is not None
    return federation.plan.defence.context


def study(attack: str, versions: int, seed: int) -> dict[str, tuple[float, float]]:
    """See `Study.told`, of one federation."""
    studies = []

    def around(federation: Federation) -> Federation:
        studies.append(Study(Jury(federation, np.random.default_rng(seed)), context_of(federation)))
        return replace(federation, plan=replace(federation.plan, observer=studies[0]))

    simulate_seed(scenario(attack, versions), seed, around=around)
    return studies[0].told()


def loop(attack: str, versions: int, seed: int, detector: Detector | None) -> str:
    """Final accuracy, clients that were banned, and most that were known to go along, with that detector."""

    def around(federation: Federation) -> Federation:
        ASKED.append((Jury(federation, np.random.default_rng(seed)), context_of(federation)))
        strikes = None if detector is None else Strikes(threshold=2, window=3)
        defence = replace(federation.plan.defence, detector=detector, strikes=strikes)
        return replace(federation, plan=replace(federation.plan, defence=defence))

    rounds = list(simulate_seed(scenario(attack, versions), seed, around=around).rounds)
    honest, attackers = (sum(row[name] for row in rounds) for name in ("honest_bans", "malicious_bans"))
    along = max(row.get("detector_along", 0.0) for row in rounds)
    said = f"accuracy {rounds[-1]['test_accuracy']:.3f}, banned {honest} honest, {attackers} attackers"
    return f"{said}; at most {along:.0f} clients known to go along"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=["label flip", "sign flip"])
    parser.add_argument("--versions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loop", action="store_true", help="have it leave out and ban")
    asked = parser.parse_args()
    for attack in asked.attacks:
        print(f"{attack} by 40 %, Dirichlet .5, {asked.versions} versions, seed {asked.seed}", flush=True)
        if asked.loop:
            for name, detector in {
                "mean": None,
                "evidence": Evidence(root=False),
                "evidence, 100 clean samples": Evidence(),
                "jury, nobody lies": ByJury(),
                "jury, 40% lying": ByJury(lying=0.4),
                "jury, 40% lying, vetted": ByJury(lying=0.4, vetted=True),
            }.items():
                print(f"  {name:30} {loop(attack, asked.versions, asked.seed, detector)}", flush=True)
        else:
            for name, (single, client) in study(attack, asked.versions, asked.seed).items():
                print(f"  {name:30} AUC of clients {client:.2f}, of single updates {single:.2f}")


if __name__ == "__main__":
    main()

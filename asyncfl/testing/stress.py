"""A lab for detectors: a hundred small federations, and whether a detector does harm in any of them.

The law: a detector bans at most one honest client in a thousand, whatever the noise, the buffer, how data differ, and
who attacks, as long as they are fewer than half; nobody without attackers; and it costs no accuracy that the plain mean
would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import get_args

import numpy as np
from threadpoolctl import threadpool_limits

from asyncfl.defences import Detector, Rule, Strikes
from asyncfl.privacy.estimators.intervals import upper_bound
from asyncfl.testing.digits import Skew
from asyncfl.testing.trials import ATTACKS, Noise, Trial, TrialResult, play

MOST_BANNED = 1e-3
"""Share of honest clients that may be banned."""
MOST_LOST = 0.01
"""Accuracy that may be lost against the plain mean, on average over a row of the table."""
BUFFERS, SHARES = (5, 10, 40), (0.1, 0.25, 0.4, 0.45)
NOISES: tuple[Noise, ...] = get_args(Noise)
SKEWS: tuple[Skew, ...] = get_args(Skew)


def stress_grid(repeats: int = 1, *, root: bool = False, first: int = 0) -> tuple[Trial, ...]:
    """The federations that detectors are tried in, 104 for each of `repeats`, each time with other seeds.

    Every skew without attackers at three buffers, each with another noise, and under every attack; buffers, noises and
    shares of attackers go round, so that all pairs of them occur. `root`: the server holds 100 samples of its own.
    `first`: number of the first repeat; those from another number on have seeds that none before it has.
    """
    trials: list[Trial] = []
    for repeat in range(first, first + repeats):
        turn, seeds = repeat * 7, count(repeat * len(SKEWS) * (len(BUFFERS) + len(ATTACKS)))
        for skew in SKEWS:
            for place, buffer in enumerate(BUFFERS):
                noise = NOISES[(place + turn + SKEWS.index(skew)) % 3]
                trials.append(Trial(skew, buffer=buffer, noise=noise, root=root, seed=next(seeds)))
        for skew in SKEWS:
            for attack in ATTACKS:
                buffer, noise = BUFFERS[turn % 3], NOISES[turn // 3 % 3]
                trials.append(Trial(skew, attack, SHARES[turn // 9 % 4], buffer, noise, root=root, seed=next(seeds)))
                turn += 1
    return tuple(trials)


@dataclass(frozen=True)
class Stressed:
    """A federation with the detector, with the plain mean, and with the plain mean and no attackers."""

    result: TrialResult
    mean: float
    """Final accuracy of the plain mean, 0..1."""
    clean: float
    """Of the plain mean where nobody attacks."""


@dataclass(frozen=True)
class StressRow:
    """Federations of one kind, added up."""

    name: str
    honest: int
    """Honest clients."""
    honest_banned: int
    attackers: int
    attackers_banned: int
    honest_flagged: float
    """Share of the judged updates of honest clients that were left out or struck; NaN: none were judged."""
    attacks_flagged: float
    """Of those of attackers."""
    unjudged: float
    """Share of the updates of which the detector said nothing."""
    gained: float
    """Accuracy beyond the plain mean's, on average."""
    worst: float
    """In the federation where that is least."""
    lost: float
    """Accuracy short of the plain mean's without attackers, on average."""


@dataclass(frozen=True)
class StressReport:
    """What became of a detector on the grid."""

    cases: tuple[Stressed, ...]

    @property
    def honest(self) -> int:
        """Honest clients in all federations."""
        return sum(case.result.honest for case in self.cases)

    @property
    def honest_banned(self) -> int:
        """How many of them were banned."""
        return sum(case.result.honest_banned for case in self.cases)

    @property
    def harmed(self) -> int:
        """Federations in which an honest client was banned."""
        return sum(case.result.honest_banned > 0 for case in self.cases)

    @property
    def most_harmed(self) -> float:
        """The exact upper limit of the share of such federations, at 95 %; 0..1. Federations are independent cases; the
        clients of one are not, who share a direction and are judged together."""
        return upper_bound(self.harmed, len(self.cases), 0.05)

    @property
    def rows(self) -> tuple[StressRow, ...]:
        """One row for each attack, for each skew, and for all."""
        kinds: list[tuple[str, Callable[[Trial], bool]]] = [("no attack", lambda trial: trial.attack is None)]
        kinds += [(name, lambda trial, name=name: trial.attack == name) for name in ATTACKS]  # type: ignore[misc]
        kinds += [(name, lambda trial, name=name: trial.skew == name) for name in SKEWS]  # type: ignore[misc]
        chosen = [(name, [case for case in self.cases if holds(case.result.trial)]) for name, holds in kinds]
        return tuple(_row(name, cases) for name, cases in [*chosen, ("all", list(self.cases))] if cases)

    @property
    def worst_attack(self) -> str | None:
        """The attack under which most honest clients are banned, and of these the one that costs most accuracy."""
        rows = [row for row in self.rows if row.name in ATTACKS]
        return max(rows, key=lambda row: (row.honest_banned, row.lost)).name if rows else None

    @property
    def broken(self) -> tuple[str, ...]:
        """Which parts of the law do not hold, in words."""
        found = []
        if self.honest_banned > MOST_BANNED * self.honest:
            found.append(
                f"at most {MOST_BANNED:.1%} of honest clients may be banned; it banned {self.honest_banned} of "
                f"{self.honest}, in {self.harmed} of {len(self.cases)} federations"
            )
        for row in self.rows:
            if row.name == "no attack" and row.honest_banned:
                found.append(f"without attackers nobody may be banned; it banned {row.honest_banned} of {row.honest}")
            if row.gained < -MOST_LOST:
                found.append(
                    f"accuracy may be at most {100 * MOST_LOST:g} point below that of the plain mean; it is "
                    f"{-100 * row.gained:.1f} points below on average ({row.name})"
                )
        return tuple(found)


def stress(
    detector: Detector,
    strikes: Strikes | None = None,
    trials: Iterable[Trial] | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    fallback: Rule | None = None,
) -> StressReport:
    """What `detector` does in small federations.

    `strikes`: when clients are banned; None: at two strikes within three judged updates. `trials`: the federations;
    None: `stress_grid()`, with a root set where the detector needs one; about a minute on one core, for a detector that
    takes 3 ms for a buffer. `fallback`: rule in place of the mean where it abstains. `progress` hears
    of each federation: how many are done, of how many.
    """
    chosen: Sequence[Trial] = tuple(stress_grid(root=detector.needs_root) if trials is None else trials)
    cases = []
    # Threads that wait for each other take longer than the products of so small matrices.
    with threadpool_limits(1):
        for number, trial in enumerate(chosen):
            result = play(trial, detector, strikes, fallback=fallback)
            cases.append(Stressed(result, _plain(trial), _plain(trial.without_attackers)))
            if progress is not None:
                progress(number + 1, len(chosen))
    return StressReport(tuple(cases))


@lru_cache(maxsize=4096)
def _plain(trial: Trial) -> float:
    """Final accuracy of the plain mean, which is the same for every detector."""
    return play(trial).accuracy


def _row(name: str, cases: Sequence[Stressed]) -> StressRow:
    results = [case.result for case in cases]

    def total(field: str) -> int:
        return sum(getattr(result, field) for result in results)

    judged = total("honest_judged") + total("attacks_judged")
    gains = [case.result.accuracy - case.mean for case in cases]
    return StressRow(
        name,
        total("honest"),
        total("honest_banned"),
        total("attackers"),
        total("attackers_banned"),
        _share(total("honest_flagged"), total("honest_judged")),
        _share(total("attacks_flagged"), total("attacks_judged")),
        _share(total("unjudged"), judged + total("unjudged")),
        float(np.mean(gains)),
        min(gains),
        float(np.mean([case.clean - case.result.accuracy for case in cases])),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")

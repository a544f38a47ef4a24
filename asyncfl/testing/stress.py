"""Stress test of detectors: a hundred small federations, and whether a detector does harm in any of them.

The law: with fewer attackers than honest clients, a detector bans at most one honest client in a thousand, for any
noise, buffer size, heterogeneity and attack. Without attackers it bans no client. It costs no accuracy compared with
the plain mean.

Runs with the detector and with the plain mean share all random streams: a ban or a flag does not change batches or
noise of other clients. So gains in accuracy are paired differences. A cell consists of federations that differ only by
their seed; its gain has an interval of Student's t over them. The interval of a single federation covers the randomness
of its 400 test samples, not that of training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import get_args

import numpy as np
from threadpoolctl import threadpool_limits

from asyncfl.base.messages import Bools
from asyncfl.defences import Detector, Rule, Strikes
from asyncfl.privacy.estimators.intervals import interval, upper_bound
from asyncfl.testing.trials import ATTACKS, TESTED, Noise, Skew, Trial, TrialResult, run_trial

MOST_BANNED = 1e-3  # largest share of honest clients that may be banned
MOST_LOST = 0.01  # largest mean loss of accuracy against the plain mean, over a row of the table or over a cell
ANOTHER_SEED = 1_000_000  # difference between the seeds of a cell, larger than the number of seeds in the grid
BUFFERS, SHARES = (5, 10, 40), (0.1, 0.25, 0.4, 0.45)
NOISES: tuple[Noise, ...] = get_args(Noise)
SKEWS: tuple[Skew, ...] = get_args(Skew)


def stress_grid(repeats: int = 1, *, root: bool = False, first: int = 0, seeds: int = 1) -> tuple[Trial, ...]:
    """Build the federations of the stress test: 104 for each repeat and seed, all with different seeds.

    They contain every skew without attackers at three buffer sizes with different noise, and every skew under every
    attack. Buffer sizes, noise and shares of attackers rotate, so that all pairs of them occur. `root`: whether the
    server has a root set of 100 samples. `first`: number of the first repeat; different repeats have different seeds.
    `seeds`: number of federations per cell; the result is ordered by seed.
    """
    trials: list[Trial] = []
    for repeat in range(first, first + repeats):
        turn, own = repeat * 7, count(repeat * len(SKEWS) * (len(BUFFERS) + len(ATTACKS)))
        for skew in SKEWS:
            for place, buffer in enumerate(BUFFERS):
                noise = NOISES[(place + turn + SKEWS.index(skew)) % 3]
                trials.append(Trial(skew, buffer=buffer, noise=noise, root=root, seed=next(own)))
        for skew in SKEWS:
            for attack in ATTACKS:
                buffer, noise = BUFFERS[turn % 3], NOISES[turn // 3 % 3]
                trials.append(Trial(skew, attack, SHARES[turn // 9 % 4], buffer, noise, root=root, seed=next(own)))
                turn += 1
    return tuple(replace(trial, seed=trial.seed + ANOTHER_SEED * seed) for seed in range(seeds) for trial in trials)


@dataclass(frozen=True)
class StressCase:
    """Results of a federation with the detector, with the plain mean, and with the plain mean without attackers."""

    result: TrialResult
    mean: float  # final accuracy of the plain mean, 0..1
    clean: float  # final accuracy of the plain mean without attackers, 0..1
    better: int  # test samples that only the detector's model classifies correctly
    worse: int  # test samples that only the plain mean's model classifies correctly

    @property
    def gained(self) -> float:
        return (self.better - self.worse) / TESTED

    @property
    def gained_between(self) -> tuple[float, float]:
        """95 % interval of `gained` for the random test samples, exact given the number on which the models differ."""
        differ = self.better + self.worse
        if not differ:
            return 0.0, 0.0
        low, high = interval(self.better, differ)
        return (2 * low - 1) * differ / TESTED, (2 * high - 1) * differ / TESTED


@dataclass(frozen=True)
class StressCell:
    """Federations that differ only by their seed."""

    trial: Trial
    federations: int
    gained: float  # mean gain in accuracy over the plain mean
    low: float  # lower end of its 95 % interval, by Student's t over the federations; NaN: there is only one
    high: float

    @classmethod
    def of(cls, cases: Sequence[StressCase]) -> StressCell:
        from scipy.stats import t

        gains = np.array([case.gained for case in cases])
        n, middle = len(gains), float(gains.mean())
        half = float(t.ppf(0.975, n - 1) * gains.std(ddof=1) / n**0.5) if n > 1 else float("nan")
        return cls(cases[0].result.trial, n, middle, middle - half, middle + half)


@dataclass(frozen=True)
class StressRow:
    """Sums and means over the federations of one kind."""

    name: str  # attack or skew of these federations
    honest: int
    honest_banned: int
    attackers: int
    attackers_banned: int
    honest_flagged: float
    """Share of the judged updates of honest clients that were flagged or struck; NaN: none were judged."""
    attacks_flagged: float  # share of the judged updates of attackers that were flagged or struck
    unjudged: float
    gained: float  # mean gain in accuracy over the plain mean
    worst: float  # smallest gain of a federation
    lost: float  # mean loss of accuracy against the plain mean without attackers

    @classmethod
    def of(cls, name: str, cases: Sequence[StressCase]) -> StressRow:
        def total(*fields: str) -> int:
            return sum(getattr(case.result, field) for case in cases for field in fields)

        def share(part: str, *whole: str) -> float:
            return total(part) / total(*whole) if total(*whole) else float("nan")

        gains = [case.gained for case in cases]
        return cls(
            name,
            total("honest"),
            total("honest_banned"),
            total("attackers"),
            total("attackers_banned"),
            share("honest_flagged", "honest_judged"),
            share("attacks_flagged", "attacks_judged"),
            share("unjudged", "honest_judged", "attacks_judged", "unjudged"),
            float(np.mean(gains)),
            min(gains),
            float(np.mean([case.clean - case.result.accuracy for case in cases])),
        )


@dataclass(frozen=True)
class StressReport:
    """Results of a detector in the stress test."""

    cases: tuple[StressCase, ...]

    @property
    def honest(self) -> int:
        return sum(case.result.honest for case in self.cases)

    @property
    def honest_banned(self) -> int:
        return sum(case.result.honest_banned for case in self.cases)

    @property
    def harmed(self) -> int:
        """Number of federations in which an honest client was banned."""
        return sum(case.result.honest_banned > 0 for case in self.cases)

    @property
    def most_harmed(self) -> float:
        """Exact upper 95 % limit of the share of federations in which an honest client is banned, 0..1.

        Federations are independent; the clients of one federation are not, because they are judged together.
        """
        return upper_bound(self.harmed, len(self.cases), 0.05)

    @property
    def rows(self) -> tuple[StressRow, ...]:
        """Rows of the table: one for each attack, one for each skew, and one for all."""
        groups: dict[str, list[StressCase]] = {name: [] for name in ("no attack", *ATTACKS, *SKEWS, "all")}
        for case in self.cases:
            for name in (case.result.trial.attack or "no attack", case.result.trial.skew, "all"):
                groups[name].append(case)
        return tuple(StressRow.of(name, cases) for name, cases in groups.items() if cases)

    @property
    def cells(self) -> tuple[StressCell, ...]:
        """Cells: federations grouped by all settings but the seed, in the order of the grid."""
        groups: dict[Trial, list[StressCase]] = {}
        for case in self.cases:
            groups.setdefault(replace(case.result.trial, seed=0), []).append(case)
        return tuple(map(StressCell.of, groups.values()))

    @property
    def behind(self) -> tuple[StressCase, ...]:
        """Federations more than one point of accuracy below the plain mean, the worst first."""
        return tuple(sorted((case for case in self.cases if case.gained < -MOST_LOST), key=lambda case: case.gained))

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences on banned honest clients and on accuracy lost against the plain mean."""
        behind, cells = self.behind, self.cells
        points = f"{100 * MOST_LOST:g} point"
        sentences = [
            f"{self.honest_banned} of {self.honest} honest clients banned, in {self.harmed} of {len(self.cases)} "
            f"federations: in at most {100 * self.most_harmed:.3g} % of such federations (exact, 95 %). "
            f"Worst attack: {self.worst_attack}.",
            f"{len(behind)} of {len(self.cases)} federations end more than {points} below the plain mean, "
            f"{sum(case.gained_between[1] < -MOST_LOST for case in behind)} of them beyond the uncertainty of "
            f"{TESTED} test samples (95 %).",
        ]
        if behind:
            low, high = (100 * end for end in behind[0].gained_between)
            sentences.append(
                f"The worst: {100 * behind[0].gained:+.1f} points ({low:+.1f} to {high:+.1f}), "
                f"{cell_name(behind[0].result.trial)}."
            )
        if several := [cell for cell in cells if cell.federations > 1]:
            sentences.append(
                f"{sum(cell.gained < -MOST_LOST for cell in several)} of {len(several)} cells are more than {points} "
                f"below it on average over their seeds, {sum(cell.high < -MOST_LOST for cell in several)} of them with "
                f"95 %; of {sum(cell.low < -MOST_LOST for cell in several)} it is not ruled out."
            )
        return tuple(sentences)

    @property
    def worst_attack(self) -> str | None:
        """Attack under which most honest clients are banned; among equals, the one that costs most accuracy."""
        rows = [row for row in self.rows if row.name in ATTACKS]
        return max(rows, key=lambda row: (row.honest_banned, row.lost)).name if rows else None

    @property
    def violations(self) -> tuple[str, ...]:
        """One sentence for each limit on honest bans or on lost accuracy that the detector exceeds; () without any."""
        found = []
        if self.honest_banned > MOST_BANNED * self.honest:
            found.append(
                f"at most {MOST_BANNED:.1%} of honest clients may be banned; it banned {self.honest_banned} of "
                f"{self.honest}, in {self.harmed} of {len(self.cases)} federations"
            )
        for row in self.rows:
            if row.name == "no attack" and row.honest_banned:
                found.append(
                    f"without attackers no client may be banned; it banned {row.honest_banned} of {row.honest}"
                )
            if row.gained < -MOST_LOST:
                found.append(
                    f"accuracy may be at most {100 * MOST_LOST:g} point below that of the plain mean; it is "
                    f"{-100 * row.gained:.1f} points below on average ({row.name})"
                )
        for cell in self.cells:
            if cell.high < -MOST_LOST:
                found.append(
                    f"in no cell accuracy may be more than {100 * MOST_LOST:g} point below that of the plain mean; "
                    f"it is {-100 * cell.gained:.1f} points below, at least {-100 * cell.high:.1f} with 95 % "
                    f"({cell_name(cell.trial)})"
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
    """Run `detector` in small federations, compare it with the plain mean, and return the results.

    `strikes`: rule of bans; None: two strikes within three judged updates. `trials`: federations; None:
    `stress_grid()`, with a root set where the detector needs one, which takes about a minute on one core for a detector
    that takes 3 ms per buffer. `progress`: called after each federation with the number done and the total. `fallback`:
    aggregation rule in place of the mean where the detector abstains.
    """
    chosen: Sequence[Trial] = tuple(stress_grid(root=detector.needs_root) if trials is None else trials)
    cases = []
    # For matrices this small, several threads are slower than one.
    with threadpool_limits(1):
        for number, trial in enumerate(chosen):
            result, right = run_trial(trial, detector, strikes, fallback)
            mean, clean = _plain(trial), _plain(replace(trial, attack=None, share=0.0))
            better, worse = int((right & ~mean).sum()), int((mean & ~right).sum())
            cases.append(StressCase(result, float(mean.mean()), float(clean.mean()), better, worse))
            if progress is not None:
                progress(number + 1, len(chosen))
    return StressReport(tuple(cases))


@lru_cache(maxsize=4096)
def _plain(trial: Trial) -> Bools:
    """Return which test samples the plain mean's last model classifies correctly; it is the same for all detectors."""
    return run_trial(trial)[1]


def cell_name(trial: Trial) -> str:
    attack = "no attack" if trial.attack is None else f"{trial.attack} by {100 * trial.share:g} %"
    return f"{trial.skew}, {attack}, buffer {trial.buffer}, noise {trial.noise}" + ", root set" * trial.root

"""What accountants, bounds, estimators and questions come to, to nine digits, against a written list.

The other tests here say why such numbers are right; this one, that none of them moves without anybody meaning it.
`python tests/privacy/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.privacy.accounting import gaussian, renyi
from asyncfl.privacy.accounting.accountants import ACCOUNTANTS, epsilon_by, epsilons_of, notes
from asyncfl.privacy.accounting.basic import basic_and_advanced, epsilon_of_one
from asyncfl.privacy.accounting.calibrate import multiplier_for
from asyncfl.privacy.accounting.composition import (
    advanced_share,
    classical_share,
    gaussian_multiplier,
    laplace_multiplier,
    noise_multiplier,
)
from asyncfl.privacy.accounting.events import MechanismEvent, gathered, parse_event, under
from asyncfl.privacy.accounting.exact import is_revealing, revealed_epsilon, smallest_epsilon
from asyncfl.privacy.accounting.histories import histories
from asyncfl.privacy.accounting.laplace import epsilon_of_losses, laplace_epsilons
from asyncfl.privacy.accounting.roots import just_enough
from asyncfl.privacy.accounting.two_worlds import Gaussians, Worlds, laplace_classes
from asyncfl.privacy.bounds.constants import BoundSettings, LossConstants
from asyncfl.privacy.bounds.full import FullParticipation
from asyncfl.privacy.bounds.optimum import optimum
from asyncfl.privacy.bounds.partial import PartialParticipation
from asyncfl.privacy.estimators import guesses, intervals, one_run, one_run_gaussian, roc, two_worlds
from asyncfl.privacy.exposures import MeasuredExposures, ShareExposures, assumed_exposures
from asyncfl.privacy.noise.server_noise import nbafl_noise, server_std
from asyncfl.privacy.queries.bounds import BoundsQuestion
from asyncfl.privacy.queries.nbafl import NbaflQuestion
from asyncfl.privacy.queries.releases import ComposeQuestion, EpsilonQuestion, ExposureQuestion, NoiseQuestion
from asyncfl.privacy.schemes.adaptive import formulas
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
TEXTS = (
    "gaussian:1.1x10",
    "gaussian:0.5",
    "gaussian:8x400",
    "gaussian:2@0.01x1000",
    "gaussian:0.02@0.3x4",
    "laplace:5x3",
    "laplace:0.5",
    "laplace:40x1000",
    "laplace:0.001x3",
    "pure:0.5",
    "pure:0.1x50",
    "pure:0.01x200000",
)
WRONG = (
    "gaussian",
    "exponential:1",
    "gaussian:one",
    "gaussian:0",
    "pure:2e9",
    "laplace:1@0.5",
    "gaussian:1@0",
    "gaussian:1@1.1",
    "gaussian:1x0",
    "gaussian:1x1.5",
    "gaussian:1x1000000001",
    "gaussian:1e-9",
    "pure:1e9",
    "gaussian:1@1x1000000000",
    "gaussian:9e-10",
)
CHEAP = [text for text in TEXTS if "@0.01" not in text]
PLANS = (16, 17, 31, 32, 33, 100)
SCORES = np.array([0.3, 2.0, math.nan, -1.0, 2.0, 0.0, 1.5, 0.3, -0.2, 0.9, 0.1, 3.0, -2.0, 0.4, 0.8, 1.1, 0.7, -0.7])
COINS = SCORES > 0.35
MEMBERS, OTHERS = np.sin(np.arange(50.0)) + 1, np.cos(np.arange(250.0) ** 1.5)
ROWS = [(3.0, 4.0, 1.0, 1.0), (10.0, 0.25, 1.0, 1.5), (2.0, 0.0, 2.0, 2.0), (5.0, 1.0, 0.7, 0.7)]


def _accounting() -> Iterator[tuple[str, Callable[[], Any]]]:
    for text in (*TEXTS, *WRONG):
        yield (
            f"read {text}",
            lambda text=text: [str(parse_event(text)), parse_event(text).epsilon, parse_event(text).squared_mu],
        )
    for text in CHEAP:
        event = parse_event(text)
        for neighbours in ("add_remove", "replace"):
            yield (
                f"{text} {neighbours}",
                lambda e=event, n=neighbours: [
                    *(epsilon_by(one, [e], 1e-5, n) for one in ACCOUNTANTS if e.rate == 1),
                    *basic_and_advanced([e], 1e-5, n),
                    epsilon_of_one(e, 0.05, n),
                    notes(e.rate < 1, n),
                    [str(one) for one in under([e], n)],
                ],
            )
        yield f"{text} at 0.2", lambda e=event: epsilon_of_one(e, 0.2)
    several = [parse_event(text) for text in ("pure:0.5", "gaussian:2x3", "pure:0.5x2", "gaussian:2", "laplace:4")]
    yield "several gathered", lambda: [str(one) for one in gathered([*several, MechanismEvent("gaussian", math.inf)])]
    yield "several at once", lambda: epsilons_of(several, 1e-4)
    yield "nothing", lambda: [smallest_epsilon([], 1e-5), *basic_and_advanced([], 1e-5)]
    yield (
        "far",
        lambda: smallest_epsilon(
            [parse_event("laplace:0.001"), parse_event("gaussian:1"), parse_event("pure:600")], 1e-5
        ),
    )
    for rate, delta, count in ((0.3, 1e-5, 4), (0.001, 0.01, 3), (0.5, 1e-3, 100)):
        event = MechanismEvent("gaussian", 0.1, count, rate)
        yield (
            f"revealed {event}",
            lambda e=event, d=delta: [
                revealed_epsilon(e, d, "add_remove"),
                revealed_epsilon(e, d, "replace"),
                is_revealing(e, 1e-4),
                is_revealing(e, 101.0),
                is_revealing(e, 1e-3),
                is_revealing(e, 100.0),
            ],
        )
    for count in (0, 1, 2, 3, 17, 300):
        yield (
            f"laplace x {count}",
            lambda n=count: [laplace_epsilons(n, z, d) for z in (0.3, 2.0, 90.0) for d in (1e-8, 0.01, 0.3)],
        )
    yield (
        "losses",
        lambda: [
            epsilon_of_losses(np.array([-1.0, 0.5, 2.0, 70.0]), np.array([0.4, 0.3, 0.2, 0.1]), delta)
            for delta in (0.05, 0.1, 0.2, 0.29, 0.3, 0.31, 0.6, 0.99, 1.0)
        ],
    )
    for delta in (1e-9, 1e-5, 0.01, 0.4):
        yield (
            f"gaussian at {delta}",
            lambda d=delta: [
                gaussian.exact_epsilon(np.array([0.0, 1e-8, 1e-3, 0.5, 1.0, 30.0, 1e4, 1e9]), d),
                gaussian.classical_constant(d),
                gaussian.classical_limit(d),
                gaussian.classical_limit(d, 1.25),
                gaussian.analytic_multiplier(0.01, d),
                gaussian.analytic_multiplier(1.0, d),
                gaussian.analytic_multiplier(300.0, d),
                renyi.rdp_epsilon(0.7, d),
                renyi.rdp_multiplier(2.0, d),
            ],
        )
    yield (
        "curves",
        lambda: [
            renyi.gaussian_curve(0.3),
            renyi.laplace_curve(0.4),
            renyi.laplace_curve(1e-4),
            renyi.pure_curve(0.7),
            renyi.pure_curve(800.0),
            renyi.ORDERS,
        ],
    )
    for text in ("gaussian:2@0.01x1000", "gaussian:1.5@0.2x30", "laplace:5x3"):
        yield f"renyi {text}", lambda text=text: [renyi.renyi_epsilon([parse_event(text)], d) for d in (1e-6, 0.1)]
    for accountant in ACCOUNTANTS:
        yield (
            f"noise by {accountant}",
            lambda a=accountant: [
                multiplier_for(2.0, 1e-5, "laplace", 3, accountant=a),
                multiplier_for(0.5, 1e-3, releases=4, neighbours="replace", accountant=a),
                multiplier_for(math.inf, 0.1, accountant=a),
            ],
        )
    for composition in ("naive_delta_split", "advanced", "analytic", "rdp"):
        yield (
            f"multipliers {composition}",
            lambda c=composition: [
                *(gaussian_multiplier(3.0, 1e-4, n, k, c) for k in ("classical", "analytic") for n in (1, 9)),
                laplace_multiplier(3.0, 1e-4, 9, c),
            ],
        )
    for composition in ("naive", "naive_delta_split", "advanced", "analytic", "rdp"):
        yield (
            f"noise {composition}",
            lambda c=composition: [noise_multiplier(n, e, 0.01, 1.25, c) for n in (0, 1, 25) for e in (0.5, 30.0, 1e3)],
        )
    for composition in ("naive", "naive_delta_split", "advanced"):
        yield (
            f"shares {composition}",
            lambda c=composition: [
                (one.epsilon, one.delta, one.limit, one.past_its_limit, one.notes("upload"))
                for one in (classical_share(n, e, 1e-3, c, f) for n in (1, 7) for e in (0.5, 60.0) for f in (1.0, 1.25))
            ],
        )
    yield "advanced shares", lambda: [*(advanced_share(e, 1e-6, n) for e in (0.1, 5.0) for n in (1, 2, 90))]
    yield (
        "just enough",
        lambda: [
            just_enough(lambda x: 2 - x),
            just_enough(lambda x: 1 - 1e6 * x),
            just_enough(lambda x: -x),
            just_enough(lambda x: 1 - x),
        ],
    )
    holder = [0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 5, 5]
    laplace = [0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    noise = [2, 2, 5, 5, 5, 2, 4, 1, math.inf, 0, 3, 9, 2, 0]
    counts = [1, 2, 1, 1, 4, 1, 1, 1, 5, 1, 1, 0, 1, 0]
    for delta in (0.0, 1e-5, 0.1):
        yield (
            f"histories at {delta}",
            lambda d=delta: histories(holder, np.array(laplace, bool), noise, counts, d, compose_mixed=False),
        )
    each = np.linspace(1, 2, 9)
    yield "histories of many kinds", lambda: histories(np.zeros(9), np.zeros(9, bool), each, np.ones(9), 1e-3)
    yield (
        "worlds",
        lambda: [
            *(
                Worlds(Gaussians.of(rows)).epsilon(delta)
                for rows in (ROWS, ROWS[:1], ROWS[2:3], ROWS[1:])
                for delta in (1e-9, 1e-3, 0.3)
            ),
            Worlds(Gaussians.of(ROWS), laplace_classes(np.array([0.5, 0.0, 0.51, 3.0]), 2.0)).epsilon(1e-2),
            laplace_classes(np.array([0.5, 0.0, -0.51, 3.0, 0.499]), 2.0),
            Gaussians.of(ROWS).telling,
        ],
    )


def _estimators() -> Iterator[tuple[str, Callable[[], Any]]]:
    for number in PLANS:
        yield f"plans of {number}", lambda n=number: [(one.included, one.excluded) for one in guesses.plans(n)]
        yield (
            f"most of {number}",
            lambda n=number: [one_run.most(n, 0.0), one_run.most(n, 1e-5, 0.1), one_run_gaussian.most_mu(n)],
        )
    yield "no plans", lambda: guesses.plans(0)
    yield "ranking", lambda: [guesses.ranking(SCORES).tolist(), guesses.ranking(np.full(3, math.nan))]
    yield (
        "right",
        lambda: [
            guesses.correct(guesses.ranking(SCORES), COINS, guesses.GuessPlan(*plan))
            for plan in ((9, 9), (4, 0), (3, 5))
        ],
    )
    yield "shown", lambda: [one_run.audited(SCORES, COINS, delta) for delta in (0.0, 1e-5, 0.2)]
    yield (
        "shown mu",
        lambda: [
            one_run_gaussian.audited_mu(SCORES, COINS),
            one_run_gaussian.audited_mu(SCORES, ~COINS),
            one_run_gaussian.epsilon_at(1.5, 1e-5),
        ],
    )
    yield (
        "one run",
        lambda: [
            one_run.p_value(20, 16, right, e, d)
            for right in (0, 1, 8, 16)
            for e in (0.0, 1.0)
            for d in (0.0, 1e-3, 0.2)
        ],
    )
    yield (
        "one run, from below",
        lambda: [one_run.epsilon_of(1000, 100, right, d) for right in (0, 58, 59, 70, 100) for d in (0.0, 1e-4, 1e-2)],
    )
    yield "one run, of nothing", lambda: [one_run.epsilon_of(5, 0, 0, 0.0), one_run_gaussian.mu_of(5, 0, 0)]
    yield "one run, impossible", lambda: one_run.epsilon_of(5, 6, 3, 0.0)
    yield "one Gaussian run, impossible", lambda: one_run_gaussian.mu_of(5, 4, 5)
    yield (
        "one Gaussian run",
        lambda: [
            one_run_gaussian.mu_of(m, r, c)
            for m, r, c in ((100, 100, 50), (100, 100, 51), (100, 60, 50), (400, 40, 40), (10**9, 10, 10))
        ],
    )
    yield "refuted", lambda: one_run_gaussian.refuted(50, 30, 27, np.linspace(0, 4, 41), 0.05).astype(int).tolist()
    yield (
        "intervals",
        lambda: [
            *(intervals.interval(k, 20) for k in (0, 1, 10, 20)),
            intervals.interval(3, 9, 0.5),
            intervals.lower_bound(4, 5, 0.1),
        ],
    )
    yield (
        "worlds told apart",
        lambda: [
            (
                two_worlds.epsilon_of(two_worlds.Counts(*c), d),
                two_worlds.mu_of(two_worlds.Counts(*c)),
                two_worlds.Counts(*c).error_bounds(0.05),
            )
            for c in ((99, 100, 1, 100), (50, 100, 50, 100), (0, 100, 100, 100), (100, 100, 0, 100), (40, 50, 30, 60))
            for d in (0.0, 1e-3, 0.1)
        ],
    )
    yield (
        "roc",
        lambda: [
            *(roc.at_false_rate(MEMBERS, OTHERS, rate) for rate in (0.0, 0.004, 0.01, 0.1)),
            roc.at_false_rate(MEMBERS, OTHERS).between,
            roc.area(MEMBERS, OTHERS),
            roc.area(OTHERS, MEMBERS),
            *roc.curve(MEMBERS[:9], OTHERS[:9]),
            roc.area(np.array([1.0, 1.0, 2.0]), np.array([1.0, 0.0])),
        ],
    )
    yield "roc of few", lambda: roc.at_false_rate(MEMBERS, OTHERS[:199])
    yield "roc of nobody", lambda: roc.area(MEMBERS[:0], OTHERS)
    yield "roc of NaN", lambda: roc.area(MEMBERS, np.array([math.nan]))


def _formulas() -> Iterator[tuple[str, Callable[[], Any]]]:
    for lambda1 in ("paper", "corrected"):
        for clients in (50, 5):
            full = FullParticipation(LossConstants(), BoundSettings(clients=clients), lambda1=lambda1)  # type: ignore[arg-type]
            yield f"full {lambda1} {clients}", lambda f=full: [f.contraction, f.kappa0, f.kappa1, f.why_undefined()]
    partial = PartialParticipation(LossConstants(), BoundSettings())
    some = np.array([1, 2, 10, 49, 50])
    yield (
        "partial",
        lambda: [
            partial.contraction(some),
            partial.alpha0(some),
            partial.alpha1(some),
            partial.discounted_budget(30, some),
            partial.why_undefined(30, 10),
            partial.why_undefined(3, 2),
            partial.why_undefined(60, 50),
        ],
    )
    yield "optimum", lambda: [optimum(lambda t: (t - 7.3) ** 2, largest) for largest in (1, 5, 7, 8, 500)]
    yield "optimum of nothing", lambda: optimum(lambda t: np.full(len(t), np.nan), 20)
    for rounds in (5, 25, 200):
        for participants in (50, 20):
            for rule in ("paper", "amplification", "none"):
                yield (
                    f"nbafl {rounds} {participants} {rule}",
                    lambda t=rounds, k=participants, r=rule: [
                        nbafl_noise(
                            clients=50,
                            participants=k,
                            rounds=t,
                            exposures=exposures,
                            samples=90,
                            clip_norm=7.0,
                            epsilon=epsilon,
                            delta=0.01,
                            b_rule=r,
                            sensitivity=s,
                            max_client_weight=w,
                            noise_scale=w,
                        )
                        for exposures in (0, 3)
                        for epsilon in (30.0, math.inf)
                        for s in ("2C/m", "2C", "2C/N")
                        for w in (1.0, 1.5)
                    ],
                )
    yield (
        "server std",
        lambda: [
            server_std(1.0, math.sqrt(5), 5),
            server_std(1.0, 2.0, 5),
            server_std(1e200, 1e200, 2),
            server_std(2e-7, 0.0, 1),
            server_std(1.0, 3.0, 5),
        ],
    )
    yield (
        "adaptive",
        lambda: [
            *(
                formulas.adjusted_budget(a, 5.0, 0.3, 2.0, loss)
                for a in ("linear", "exponential", "none")
                for loss in (0.0, 1.0, 2.5)
            ),
            formulas.matched_k(0.3, 5.0, 2.0),
            formulas.client_std(0.5, 3.0, 0.01),
            formulas.client_std(0.5, math.inf, 0.01, 2.0),
            *(formulas.round_budget([1.0, 2.0, 4.0], rule) for rule in ("sum", "max")),
            formulas.missing_std(0.5, 2.0, 3.0, 0.01),
            formulas.missing_std(0.5, 1e-200, 3.0, 0.01),
            formulas.missing_std(0.5, 3.0, 2.0, 0.01),
            *(formulas.constant_budget([f, 2 * f, 4 * f], m) for m in ("naive", "rdp") for f in (1.0, 1e307)),
            *(formulas.sensitivity_of(r, 3.0, 5, 20) for r in ("2M/batch", "2M", "M", "2M/n")),
        ],
    )
    for share in (0.05, 0.2, 0.5, 1.0):
        yield (
            f"exposures {share}",
            lambda s=share: [
                ShareExposures(share=s, of=of).number(10, k, 4)
                for of in ("rounds", "participations")
                for k in (1, 3, 4)
            ],
        )
    yield (
        "exposures",
        lambda: [
            assumed_exposures(3, 10, 2, 4),
            assumed_exposures(ShareExposures(), 10, 2, 4),
            MeasuredExposures().number(1, 1, 1),
        ],
    )
    yield (
        "ask bounds",
        lambda: [
            BoundsQuestion(rounds=30, participants=k, noise=BoundSettings(epsilon=e)).answer()
            for k in (None, 10)
            for e in (50.0, 1.0)
        ],
    )
    yield "ask bounds, curves", lambda: [BoundsQuestion(participants=k, largest_rounds=30).curve() for k in (None, 10)]
    yield (
        "ask nbafl",
        lambda: [
            NbaflQuestion(participants=k, exposures=n, parameters=p).answer()
            for k, n, p in ((None, 1, None), (20, 0, 50890), (50, 25, 1))
        ],
    )
    yield (
        "ask epsilon",
        lambda: [
            EpsilonQuestion(noise_multiplier=z, releases=n, laplace=p).answer()
            for z, n, p in ((1.0, 1, False), (0.01, 9, False), (30.0, 9, True), (1e4, 1, False))
        ],
    )
    yield (
        "ask noise",
        lambda: [
            NoiseQuestion(epsilon=e, releases=n, laplace=p, sensitivity=2.0).answer()
            for e, n, p in ((1.0, 1, False), (8.0, 9, False), (3.0, 9, True))
        ],
    )
    yield (
        "ask exposures",
        lambda: [
            ExposureQuestion(epsilon=e, noise_multiplier=z, exposures=n).answer()
            for e, z, n in ((60.0, None, 1), (5.0, 2.0, 3), (0.1, 1.0, 1))
        ],
    )
    yield "compose", lambda: ComposeQuestion.model_validate({"releases": ["gaussian:1.1x10", "gaussian:3"]}).answer()


CALLS = dict([*_accounting(), *_estimators(), *_formulas()])


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    write(LIST, CALLS)

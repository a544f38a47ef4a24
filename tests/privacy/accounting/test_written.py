"""Numbers of all formulas of privacy (accounting, NbAFL's noise, bounds) over a grid, against a written list.

The list was written when each formula agreed with its oracles and closed forms, which the other tests ask at fewer
points. `python tests/privacy/accounting/test_written.py` writes it anew; read the difference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from asyncfl.privacy.accounting import MechanismEvent, epsilons_of, multiplier_for
from asyncfl.privacy.accounting.composition import (
    classical_share,
    gaussian_multiplier,
    laplace_multiplier,
    noise_multiplier,
)
from asyncfl.privacy.accounting.gaussian import classical_limit
from asyncfl.privacy.accounting.histories import histories
from asyncfl.privacy.bounds import BoundSettings, FullParticipation, LossConstants, PartialParticipation
from asyncfl.privacy.noise.server_noise import nbafl_noise

LIST = Path(__file__).with_name("written.json")
LISTS: dict[str, list[MechanismEvent]] = {
    "nothing": [],
    "no noise": [MechanismEvent("gaussian", 0.0)],
    "one Gaussian": [MechanismEvent("gaussian", 1.1)],
    "thirty Gaussians": [MechanismEvent("gaussian", 4.0, 30)],
    "much noise": [MechanismEvent("gaussian", 5_000.0, 3)],
    "one Laplace": [MechanismEvent("laplace", 2.0)],
    "forty Laplace": [MechanismEvent("laplace", 12.0, 40)],
    "pure": [MechanismEvent("pure", 0.3, 25)],
    "both": [MechanismEvent("gaussian", 6.0, 4), MechanismEvent("laplace", 9.0, 7)],
    "sampled": [MechanismEvent("gaussian", 1.3, 60, 0.05)],
    "sampled, hardly hidden": [MechanismEvent("gaussian", 0.001, 20, 0.02)],
    "sampled and whole": [MechanismEvent("gaussian", 2.0, 9, 0.1), MechanismEvent("gaussian", 20.0, 3)],
    "bare now and then": [MechanismEvent("pure", 900.0, 2), MechanismEvent("gaussian", 2.0)],
}


def _plain(value: Any) -> Any:
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return float(f"{float(value):.9g}")


def _epsilons() -> Iterator[tuple[str, Any]]:
    for (name, events), delta, neighbours in product(LISTS.items(), (1e-5, 0.02), ("add_remove", "replace")):
        found = epsilons_of(events, delta, neighbours)  # type: ignore[arg-type]
        yield f"{name}, {delta:g}, {neighbours}", [found.basic, found.advanced, found.rdp, found.exact]
    rows = [
        (holder, holder % 2 == 1, 3.0 + (step % 3) * (holder == 2), 1 + step % 2)
        for step in range(4)
        for holder in range(4)
    ]
    spent = histories(*map(list, zip(*rows, strict=True)), 1e-5)  # type: ignore[arg-type]
    yield "histories", [getattr(spent, name).tolist() for name in ("basic", "advanced", "rdp", "exact")]


def _multipliers() -> Iterator[tuple[str, Any]]:
    for epsilon, releases in product((0.4, 6.0, 80.0), (1, 12)):
        at = f"epsilon {epsilon:g}, {releases} releases"
        rules = ("naive", "naive_delta_split", "advanced", "analytic", "rdp")
        yield f"NbAFL's multipliers, {at}", [noise_multiplier(releases, epsilon, 0.01, 1.25, rule) for rule in rules]  # type: ignore[arg-type]
        ways = [(how, rule) for how in ("classical", "analytic") for rule in rules[1:]]
        yield f"Gaussian, {at}", [gaussian_multiplier(epsilon, 1e-4, releases, *way) for way in ways]  # type: ignore[arg-type]
        yield f"Laplace, {at}", [laplace_multiplier(epsilon, 1e-4, releases, rule) for rule in rules[1:]]  # type: ignore[arg-type]
        shares = [classical_share(releases, epsilon, 0.01, rule, 1.1) for rule in rules[:3]]  # type: ignore[arg-type]
        yield f"shares, {at}", [(one.epsilon, one.delta, one.limit, one.past_its_limit) for one in shares]
        kinds = product(("gaussian", "laplace"), ("add_remove", "replace"), ("basic", "advanced", "rdp", "exact"))
        found = [multiplier_for(epsilon, 1e-5, kind, releases, 1.0, who, how) for kind, who, how in kinds]  # type: ignore[arg-type]
        yield f"enough noise, {at}", found
    yield "classical limits", [classical_limit(delta, constant) for delta in (1e-6, 0.01) for constant in (1.0, 1.25)]


def _nbafl() -> Iterator[tuple[str, Any]]:
    for rule, composition, (rounds, exposures) in product(
        ("paper", "amplification", "none"), ("naive", "rdp"), ((25, 1), (25, 25), (200, 3), (25, 0))
    ):
        found = nbafl_noise(
            clients=50, participants=20, rounds=rounds, exposures=exposures, samples=100, clip_norm=20.0,
            epsilon=60.0, delta=0.01, constant=1.25, sensitivity="2C/m", composition=composition,  # type: ignore[arg-type]
            b_rule=rule, max_client_weight=1.5, noise_scale=1.1,  # type: ignore[arg-type]
        )  # fmt: skip
        numbers = [found.sigma_u, found.sigma_a, found.sigma_d, found.gamma, found.b, found.server_rule]
        yield f"noise, {rule}, {composition}, T {rounds}, L {exposures}", numbers
    full = nbafl_noise(
        clients=50, participants=50, rounds=25, exposures=5, samples=100, clip_norm=20.0, epsilon=math.inf, delta=0.01
    )
    yield "no noise", [full.sigma_u, full.sigma_a, full.sigma_d, full.gamma, full.b, full.server_rule]


def _bounds() -> Iterator[tuple[str, Any]]:
    steep = LossConstants(smoothness=0.1, lipschitz=2.0, dissimilarity=1.1, proximal_mu=1.3, polyak_lojasiewicz=0.4)
    for number, loss in enumerate((LossConstants(), LossConstants(smoothness=0.1), steep)):
        for epsilon in (6.0, 60.0):
            noise = BoundSettings(epsilon=epsilon, clients=30, clip_norm=5.0, samples=200)
            for variant in ("paper", "corrected"):
                full = FullParticipation(loss, noise, lambda1=variant)  # type: ignore[arg-type]
                values = [full.contraction, full.kappa1, full.kappa0, *full([1, 10, 100])]
                yield f"theorem 2, {number}, {epsilon:g}, {variant}", [*values, full.why_undefined()]
            part = PartialParticipation(loss, noise)
            parts = [part.contraction(7), part.alpha0(7), part.alpha1(7), *part([1, 10, 100], 7), *part(10, [1, 30])]
            yield f"theorem 3, {number}, {epsilon:g}", [*parts, part.why_undefined(10, 7)]


def _all() -> dict[str, Any]:
    return {name: _plain(value) for part in (_epsilons, _multipliers, _nbafl, _bounds) for name, value in part()}


def _near(value: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(_near, value, expected))
    if isinstance(expected, float):
        return bool(value == pytest.approx(expected, rel=1e-7, abs=1e-12, nan_ok=True))
    return bool(value == expected)


def test_numbers_are_those_written_down() -> None:
    found, written = _all(), json.loads(LIST.read_text(encoding="utf-8"))
    assert list(found) == list(written)
    other = {name: (found[name], written[name]) for name in written if not _near(found[name], written[name])}
    assert other == {}


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in _all().items()]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

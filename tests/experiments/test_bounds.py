"""Bounds over a grid: their values, their arguments, and what is wrong with them in words."""

import math
from typing import Any

import numpy as np
import pytest

from asyncfl.experiments.bounds import MOST_POINTS, Bound, Bounds, bound_value, first_fault
from asyncfl.privacy.queries.convergence_bounds import (
    BoundSettings,
    FullParticipation,
    LossConstants,
    PartialParticipation,
)

ALL = Bound(theorem=2)
SOME = Bound(theorem=3)


def test_values_are_those_of_the_theorems() -> None:
    whole = FullParticipation(LossConstants(), BoundSettings(epsilon=50.0))(7)
    assert bound_value(2, {"rounds": 7, "epsilon": 50.0}) == whole
    part = PartialParticipation(LossConstants(smoothness=0.1), BoundSettings(epsilon=6.0))(25, 20)
    assert bound_value(3, {"rounds": 25, "participants": 20, "smoothness": 0.1, "epsilon": 6.0}) == part != whole
    steep = {"rounds": 7, "lipschitz": 2.0, "proximal_mu": 1.5}
    loss = LossConstants(lipschitz=2.0, proximal_mu=1.5)
    for variant in ("paper", "corrected"):
        expected = FullParticipation(loss, BoundSettings(), lambda1=variant)(7)  # type: ignore[arg-type]
        assert bound_value(2, {**steep, "lambda1": variant}) == expected
    assert math.isnan(bound_value(2, {"rounds": 7, "epsilon": math.inf}))


def test_a_grid_has_a_row_for_each_point_and_fields_of_scenarios_stand_for_arguments() -> None:
    found = Bound(theorem=3, settings={"clients": 40, "smoothness": 0.1, "epsilon": 6.0}).over(
        {"protocol.rounds": (25, 29), "protocol.participants": (10, 20)}
    )
    assert found.columns.tolist() == ["protocol.rounds", "protocol.participants", "bound"]
    points = [(25, 10), (25, 20), (29, 10), (29, 20)]
    assert list(found[["protocol.rounds", "protocol.participants"]].itertuples(index=False, name=None)) == points
    assert found["bound"].tolist() == [
        bound_value(3, {"rounds": rounds, "participants": k, "clients": 40, "smoothness": 0.1, "epsilon": 6.0})
        for rounds, k in points
    ]


def test_ranges_have_both_ends_in_them() -> None:
    axes: dict[str, Any] = {"rounds": {"from": 2, "to": 8, "step": 3}, "clients": {"to": 3}, "epsilon": (50, 60)}
    grid = Bounds(theorem=2, axes=axes).grid()
    assert grid == {"rounds": (2, 5, 8), "clients": (1, 2, 3), "epsilon": (50, 60)}
    assert len(Bounds(theorem=2, axes={"rounds": {"to": MOST_POINTS}}).grid()["rounds"]) == MOST_POINTS
    assert Bounds(theorem=2, axes={"rounds": {"to": 3, "step": 1}}).grid() == {"rounds": (1, 2, 3)}


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ({"from": 3}, "rounds must be a list, or a range with `to` and a `step` >= 1"),
        ({"to": 9, "step": 0}, "and a `step` >= 1"),
        ({"to": MOST_POINTS + 1}, f"rounds must have at most {MOST_POINTS} values"),
        ({"from": 0, "to": 2 * MOST_POINTS, "step": 2}, "at most"),
    ],
)
def test_ranges_that_cannot_be(axis: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bounds(theorem=2, axes={"rounds": axis})


@pytest.mark.parametrize(
    ("bound", "grid", "message"),
    [
        (ALL, {"protocol.rounds": (5,), "privacy.epsilon": (50, math.inf)}, None),
        (ALL, {"round": (5,)}, "there is no argument round; did you mean rounds?"),
        (Bound(theorem=2, settings={"rounds": 5, "zzz": 1}), {}, "there is no argument zzz; arguments: "),
        (ALL, {"epsilon": (5,)}, "theorem 2 needs rounds, among the axes or the settings"),
        (SOME, {"rounds": (5,)}, "theorem 3 needs participants, among the axes or the settings"),
        (ALL, {"rounds": (5,), "epsilon": (-1.0,)}, "epsilon: Input should be greater than 0"),
        (ALL, {"rounds": ("many",)}, "rounds: Input should be a valid integer"),
        (SOME, {"rounds": (1,), "participants": (3, -1)}, "participants: Input should be greater than or equal to 1"),
        (SOME, {"rounds": (1,), "participants": (50,), "clients": (50, 49)}, "must be at most clients (49), got 50"),
        (ALL, {"rounds": (1,) * 101, "epsilon": (1,) * 100}, "must have at most 10000 points in all"),
    ],
)
def test_why_a_bound_cannot_be_computed(bound: Bound, grid: dict[str, Any], message: str | None) -> None:
    found = first_fault(bound, grid)
    assert found is None if message is None else message in str(found)


def test_second_differences_tell_where_a_bound_is_not_convex() -> None:
    """Theorem 2 with a Lipschitz constant of 30: concave past T = Theta epsilon/kappa_1 + 2/|ln P| = 14.3."""
    rounds = {"rounds": {"from": 2, "to": 40}}
    settings = {"lipschitz": 30, "epsilon": 50}
    values = Bounds.model_validate({"theorem": 2, "settings": settings, "axes": {"rounds": {"from": 1, "to": 41}}})
    bent = Bounds.model_validate({"theorem": 2, "settings": settings, "axes": rounds, "curvature_in": "rounds"})
    found = bent.over(bent.grid())["bound"].to_numpy()
    assert found == pytest.approx(np.diff(values.over(values.grid())["bound"].to_numpy(), 2))
    assert (found[:12] > 0).all()
    assert found.min() == pytest.approx(-0.00054, rel=0.01)

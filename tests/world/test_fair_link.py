"""A fairly shared link: rates and ends by hand, and laws that hold for any flows."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.world.fair_link import FairLink, fair_rates


def ends(flows: list[tuple[float, float, float]], capacity_bps: float) -> list[float]:
    """When each flow (start, bits, cap) is through."""
    link, end_s = FairLink(capacity_bps), [math.nan] * len(flows)
    coming, numbers = sorted(range(len(flows)), key=lambda flow: flows[flow][0]), {}
    now_s = 0.0
    while coming or len(link):
        wait_s, through = link.next_finished(now_s)
        if coming and flows[coming[0]][0] <= now_s + wait_s:
            flow = coming.pop(0)
            now_s, bits, cap = flows[flow]
            numbers[link.join(now_s, bits, cap)] = flow
            continue
        now_s += wait_s
        for number in through:
            assert link.leave(now_s, number) == 0.0
            end_s[numbers[number]] = now_s
    return end_s


@pytest.mark.parametrize(
    ("caps", "capacity", "rates"),
    [
        ([math.inf] * 4, 12, [3, 3, 3, 3]),
        ([2, math.inf, math.inf], 14, [2, 6, 6]),
        ([10, 1, 5], 9, [4, 1, 4]),
        ([10, 1, 3], 9, [5, 1, 3]),
        ([2, 3, 4], 9, [2, 3, 4]),
        ([7], 5, [5]),
    ],
)
def test_rates_worked_out_by_hand(caps: list[float], capacity: float, rates: list[float]) -> None:
    assert fair_rates(np.array(caps, dtype=np.float64), capacity) == pytest.approx(rates)


@given(st.lists(st.one_of(st.floats(0.1, 1e9), st.just(math.inf)), min_size=1, max_size=20), st.floats(0.1, 1e9))
def test_rates_are_max_min_fair(caps: list[float], capacity: float) -> None:
    rates = fair_rates(np.array(caps), capacity)
    assert rates.sum() == pytest.approx(min(capacity, sum(caps)))
    assert (rates <= np.array(caps)).all()
    # Who has less than another has all that it can use.
    below = rates < rates.max() * (1 - 1e-9)
    assert rates[below] == pytest.approx(np.array(caps)[below])


def test_staggered_flows_by_hand() -> None:
    # 100 bits alone until 5 s; with 30 others at 5 each until 11; its last 20 alone.
    assert ends([(0, 100, math.inf), (5, 30, math.inf)], 10) == pytest.approx([13, 11])
    # One that can use 2 leaves 8 to the other, until that is through after 10 s; it has 20 to go then.
    assert ends([(0, 40, 2), (0, 80, math.inf)], 10) == pytest.approx([20, 10])
    # The same caps, but there is room for both: as if each were alone.
    assert ends([(0, 40, 2), (0, 80, 5)], 10) == pytest.approx([20, 16])


def test_a_flow_that_leaves_makes_room_for_the_others() -> None:
    link = FairLink(10)
    first, second = link.join(0, 100, math.inf), link.join(0, 100, math.inf)
    assert link.leave(4, first) == pytest.approx(80)
    assert link.next_finished(4) == (pytest.approx(8), (second,))
    assert link.leave(12, second) == 0.0
    assert link.next_finished(12) == (math.inf, ())


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(1, 500), st.floats(0.5, 40)), min_size=1, max_size=12),
    st.floats(1, 60),
)
def test_no_flow_is_faster_than_alone_and_all_bits_are_carried(
    flows: list[tuple[float, float, float]], capacity: float
) -> None:
    end_s = ends(flows, capacity)
    for (start, bits, cap), end in zip(flows, end_s, strict=True):
        assert end >= (start + bits / min(cap, capacity)) * (1 - 1e-9)
    # At any moment the link carries what it can, or what those under way can use where that is less.
    moments, carried = sorted([start for start, _, _ in flows] + end_s), 0.0
    for begin, end in itertools.pairwise(moments):
        usable = sum(cap for (start, _, cap), until in zip(flows, end_s, strict=True) if start <= begin < until)
        carried += min(capacity, usable) * (end - begin)
    assert carried == pytest.approx(sum(bits for _, bits, _ in flows))

import numpy as np
import pytest

from asyncfl.experiments.evidence.decision import AllOf, AnyOf, Comparison, Looks

CLEAR = np.array([1.0, 1.1, 0.9])
THREE_LOOKS = Looks(tuple(range(12)), (3, 6, 12))


def comparison(*excess, **fields):
    return Comparison(np.arange(len(excess)), np.array(excess, dtype=float), "it is more by", **fields)


def at_t(t, n=6):
    """A comparison of n seeds with this t."""
    x = np.linspace(-1, 1, n)
    return comparison(*(x + t * x.std(ddof=1) / np.sqrt(n)))


def test_all_of_them_hold_at_the_full_level_and_one_fails_at_its_part():
    three = AllOf([at_t(3), at_t(9), at_t(4)]).decide()
    assert three.answer == "holds"
    assert three.p == at_t(3).decide().p  # of an order the largest of its comparisons'
    assert three.by.reading.t == pytest.approx(3)
    # t(5) = -3 has p = .015: enough for one comparison, not for two
    assert AllOf([at_t(-3)]).decide().answer == "does not hold"
    two = AllOf([at_t(-3), at_t(9)]).decide()
    assert two.answer == "not decided"
    assert two.p_fails == pytest.approx(2 * at_t(-3).decide().p_fails)
    assert AllOf([at_t(-4), at_t(9)]).decide().answer == "does not hold"


def test_any_of_them_is_the_mirror_image():
    assert AnyOf([at_t(3)]).decide().answer == "holds"
    assert AnyOf([at_t(3), at_t(-9)]).decide().answer == "not decided"
    assert AnyOf([at_t(4), at_t(-9)]).decide().answer == "holds"
    fails = AnyOf([at_t(-3), at_t(-9)]).decide()
    assert (fails.answer, fails.comparisons) == ("does not hold", 2)
    assert fails.p == at_t(-3).decide().p
    nested = AnyOf([AllOf([at_t(4), at_t(5)]), AllOf([at_t(-9), at_t(5)])])
    assert nested.decide().answer == "holds"


def test_a_crossing_stops_the_seeds_and_all_seeds_are_judged():
    crossed = comparison(*CLEAR).decide(THREE_LOOKS)
    assert (crossed.answer, crossed.wanting) == ("holds", ())
    # nine more seeds, added for the sake of others, speak for neither answer
    later = comparison(*CLEAR, *[-5, 5, -7, 3, -20, 2, -8, -9, 1]).decide(THREE_LOOKS)
    assert (later.answer, later.by.reading.seeds, later.wanting) == ("not decided", 12, ())
    # twelve seeds cross at |t| > 2.76, though the first six were given up
    given_up = [1, -1, 1, -1.5, 1, -1]
    assert comparison(*given_up).decide(THREE_LOOKS).by.is_futile
    held = comparison(*given_up, *[9, 9.1, 9.2, 9.3, 9.1, 9]).decide(THREE_LOOKS)
    assert (held.answer, held.by.reading.seeds, held.by.is_futile) == ("holds", 12, False)


@pytest.mark.parametrize(("t", "answer"), [(2.75, "not decided"), (2.77, "holds"), (-2.77, "does not hold")])
def test_twelve_seeds_are_judged_at_the_limit_of_their_look(t, answer):
    assert at_t(t, 12).decide(THREE_LOOKS).answer == answer


def test_seeds_are_added_when_all_seeds_of_a_look_are_there():
    five = comparison(0.1, -1, 1.5, 1, 2).decide(THREE_LOOKS)
    assert (five.answer, five.by.reading.seeds, five.by.more) == ("not decided", 5, 6)
    two = comparison(0.1, -1).decide(THREE_LOOKS)
    assert (two.answer, two.by.reading.seeds, two.by.more) == ("not decided", 2, 6)
    gap = Comparison(np.array([0, 2, 3]), CLEAR, "it is more by").decide(THREE_LOOKS)
    assert gap.by.reading.seeds == 3


def test_a_small_effect_is_given_up_before_the_last_look():
    little = comparison(1, -1, 1, -1.5, 1, -1)
    found = little.decide(THREE_LOOKS)
    assert (found.answer, found.by.is_futile, found.by.more) == ("not decided", True, None)


def test_after_giving_up_only_comparisons_that_may_fail_get_more_seeds():
    futile, up, down = comparison(1, -1, 1, -1.5, 1, -1), at_t(2), at_t(-2)
    assert AllOf([up, down]).decide(THREE_LOOKS).wanting[0].more == 12
    assert len(AllOf([up, down]).decide(THREE_LOOKS).wanting) == 2
    assert [one.reading.t for one in AllOf([futile, up, down]).decide(THREE_LOOKS).wanting] == [pytest.approx(-2)]


def test_seeds_that_all_tie_on_the_claims_side_are_looked_at_again():
    alike = comparison(*[0.0] * 6, strict=False).decide(THREE_LOOKS)
    assert (alike.answer, alike.by.more, alike.by.is_futile) == ("not decided", 12, False)
    assert comparison(*[0.0] * 12, strict=False).decide(THREE_LOOKS).answer == "holds"


def test_p_values_of_looks_count_what_a_look_costs():
    found = at_t(3.5, 3).decide(THREE_LOOKS)
    assert found.p_holds == pytest.approx(at_t(3.5, 3).decide().p_holds * 0.025 / 0.0093)


@pytest.mark.parametrize(
    ("at", "alpha"), [((), 0.025), ((6,), 0.025), ((3, 6, 12), 0.0093), ((3, 6, 12, 24), 0.0072), ((4, 8), 0.0125)]
)
def test_levels_of_looks(at, alpha):
    assert Looks(tuple(range(12)), at).alpha == alpha


def test_a_look_that_is_added_to_the_plan_gets_what_the_others_left():
    looks = Looks(tuple(range(24)), (6, 12, 24), added=(24,))
    assert [looks.level(seeds) for seeds in (6, 12, 24)] == [0.0125, 0.0125, 0.004]
    assert (looks.planned, looks.is_added(12), looks.is_added(24)) == ((6, 12), False, True)
    # |t| of one side at .4 % and 23 degrees of freedom: 2.91
    below, above = (at_t(t, 24).decide(looks) for t in (2.90, 2.92))
    assert (below.answer, above.answer, above.by.is_added) == ("not decided", "holds", True)
    assert at_t(2.6, 12).decide(looks).answer == "holds"
    assert at_t(2.6, 12).decide(Looks(tuple(range(24)), (6, 12, 24))).answer == "not decided"


def test_an_added_look_keeps_the_error_of_all_looks_within_the_level():
    rng = np.random.default_rng(3)
    excess = rng.standard_normal((4000, 24))
    looks = Looks(tuple(range(24)), (6, 12, 24), added=(24,))
    wrong = 0
    for seeds in excess:
        answers = (comparison(*seeds[:count]).decide(looks).answer for count in (6, 12, 24))
        wrong += "holds" in answers
    # .0245 of 4000, and three standard errors of that
    assert wrong / 4000 == pytest.approx(0.0245, abs=3 * (0.0245 / 4000) ** 0.5)


def test_an_answer_is_given_at_its_level_and_given_up_below_a_standard_error():
    # Seven signs have p = 2**-7, which is .3125 times .025.
    for sign, answer in ((np.inf, "holds"), (-np.inf, "does not hold")):
        found = comparison(*[sign] * 7).decide(holds_part=0.3125, fails_part=0.3125)
        assert found.answer == answer
    # Six of nine signs are a standard error above half of them.
    two_looks = Looks(tuple(range(12)), (9, 12))
    six, five = (comparison(*[np.inf] * n, *[-np.inf] * (9 - n)).decide(two_looks).by for n in (6, 5))
    assert (six.reading.t, six.is_futile, six.more) == (1.0, False, 12)
    assert (five.is_futile, five.more) == (True, None)

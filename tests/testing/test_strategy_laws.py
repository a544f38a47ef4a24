"""Laws of strategies: a sound one keeps all, and each planted bug breaks the law that it is planted for."""

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
import pytest

from asyncfl.base.arrays import Vector
from asyncfl.testing.flower import main
from asyncfl.testing.strategy_laws import HOLDS, LAWS, WIDTH, Outcome, Reply, check_strategy, report


class Sound:
    """A weighted mean of replies, of which older ones weigh less; each client counts once, numbers must be finite."""

    clients = 4

    def __init__(self, initial: Vector) -> None:
        self.model = initial

    def ask(self, round_: int, model: Vector) -> list[int]:
        self.model = model
        return list(range(self.clients))

    def promised(self) -> int | None:
        return self.clients

    def weight(self, round_: int, reply: Reply) -> float:
        age = 0 if reply.version is None else round_ - 1 - reply.version
        return reply.examples / (1 + age)

    def kept(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """The replies that count."""
        return [one for one in {one.client: one for one in replies}.values() if np.isfinite(one.model).all()]

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        replies = self.kept(replies)
        # An old reply counts less in the whole, not for the benefit of the others.
        whole = sum(one.examples for one in replies)
        step = sum(self.weight(round_, one) / whole * (one.model - self.model) for one in replies)
        return np.asarray(self.model + step, dtype=np.float32)


class FirstCounts(Sound):
    """The first reply that comes has twice its weight."""

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        return super().aggregate(round_, [Reply(99, replies[0].model), *replies])


class Differences(Sound):
    """Replies are taken for differences."""

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        return np.asarray(self.model + np.mean([one.model for one in self.kept(replies)], axis=0), dtype=np.float32)


class Decayed(Sound):
    """The model shrinks by what is right for no data that are far from 0."""

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        made = super().aggregate(round_, replies)
        return None if made is None else made * np.float32(0.9)


class Totals(Sound):
    """Replies are weighed by their numbers of examples, which are not divided by the whole."""

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        steps = [one.examples / 1000 * (one.model - self.model) for one in self.kept(replies)]
        return np.asarray(self.model + sum(steps), dtype=np.float32)


class Inverse(Sound):
    """Clients with more examples weigh less."""

    def weight(self, round_: int, reply: Reply) -> float:
        return 100 / reply.examples

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        kept = self.kept(replies)
        weights = np.array([self.weight(round_, one) for one in kept])
        return np.asarray(weights / weights.sum() @ np.array([one.model for one in kept]), dtype=np.float32)


class SaysMore(Sound):
    def promised(self) -> int | None:
        return 5


class AsksTwice(Sound):
    def ask(self, round_: int, model: Vector) -> list[int]:
        return [*super().ask(round_, model)[1:], 1]


class NeedsMore(Sound):
    """It waits for more replies than it asks for."""

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        return super().aggregate(round_, replies) if len(replies) > self.clients else None


class Trusting(Sound):
    """Whatever comes counts."""

    def kept(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        return replies


class Twice(Sound):
    def kept(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        return [one for one in replies if np.isfinite(one.model).all()]


class InPlace(Sound):
    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        made = super().aggregate(round_, replies)
        replies[0].model[:] = 0
        return made


class AgedEarly(Sound):
    """The version is raised before the ages of replies are computed."""

    def weight(self, round_: int, reply: Reply) -> float:
        return reply.examples / (1 + (0 if reply.version is None else round_ - reply.version))


class OldCountMore(Sound):
    def weight(self, round_: int, reply: Reply) -> float:
        return reply.examples * (1 + (0 if reply.version is None else round_ - 1 - reply.version))


PLANTED: dict[str, list[type[Sound]]] = {
    "order": [FirstCounts],
    "model": [Differences],
    "shift": [Decayed],
    "examples": [Totals, Inverse],
    "exact K": [SaysMore, AsksTwice, NeedsMore],
    "once": [Twice],
    "NaN": [Trusting],
    "untouched": [InPlace],
    "staleness": [AgedEarly, OldCountMore],
}


def outcomes(strategy: type[Sound]) -> dict[str, Outcome]:
    return {one.law: one for one in check_strategy(strategy, versions=True)}


def test_a_sound_strategy_keeps_all_laws() -> None:
    found = outcomes(Sound)
    assert [one for one in found.values() if not one.holds] == []
    assert set(found) == set(LAWS) == set(HOLDS) == set(PLANTED)


@pytest.mark.parametrize(("law", "strategy"), [(law, one) for law, planted in PLANTED.items() for one in planted])
def test_each_planted_bug_breaks_its_law(law: str, strategy: type[Sound]) -> None:
    assert outcomes(strategy)[law].holds is False


@pytest.mark.parametrize("law", LAWS)
def test_a_law_that_is_skipped_is_not_judged(law: str) -> None:
    assert law not in {one.law for one in check_strategy(Sound, versions=True, skip=[law])}


def test_a_strategy_that_refuses_what_is_unsound_keeps_the_law() -> None:
    class Strict(Trusting):
        def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
            if len({one.client for one in replies}) < len(replies):
                raise ValueError("two replies of one client")
            return super().aggregate(round_, replies) if np.isfinite([one.model for one in replies]).all() else None

    found = outcomes(Strict)
    assert found["once"].holds
    assert found["NaN"].holds


def test_versions_are_judged_only_where_they_are_read() -> None:
    found = {one.law: one for one in check_strategy(AgedEarly)}
    assert found["staleness"].holds is None


def test_no_line_of_a_report_is_longer_than_a_terminal() -> None:
    class Verbose(Sound):
        def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
            raise ValueError("a message of somebody else's code " * 9 + "x" * 200)

    lines = report("strategy " * 30, check_strategy(Verbose))
    assert max(map(len, lines)) <= WIDTH
    assert lines[-1] == "0 of 1 laws hold"


@pytest.mark.skipif(find_spec("flwr") is not None, reason="Flower is installed")
def test_without_flower_the_command_says_how_to_install_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flwr.server.strategy:FedAvg"]) == 2
    assert "pip install 'asyncfl[flower]'" in capsys.readouterr().err


with_flower = pytest.mark.skipif(find_spec("flwr") is None, reason="Flower is not installed")


@with_flower
@pytest.mark.parametrize("place", ["server", "serverapp"])
def test_flowers_mean_is_poisoned_by_one_reply_that_is_not_finite(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"flwr.{place}.strategy:FedAvg", "--skip", "once"]) == 1
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if "BROKEN" in line] == ["NaN"]
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert main([f"flwr.{place}.strategy:FedAvg", "--skip", "once", "--skip", "NaN"]) == 0


@with_flower
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nothing"], "package.module:Strategy"),
        (["json:nothing"], "cannot be imported"),
        (["json:dumps"], "cannot be made"),
        (["builtins:dict"], "neither aggregate_fit nor aggregate_train"),
    ],
)
def test_what_is_no_strategy_cannot_be_checked(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert why in capsys.readouterr().err


def test_an_argument_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["a:b", "--with", "tau"])
    assert "must be NAME=VALUE, got tau" in capsys.readouterr().err

import numpy as np
import pytest

from asyncfl.audit import canaries
from asyncfl.audit.canaries import CanaryRecords, CanaryScorer, HeldReleases, held_releases
from asyncfl.client import Assignment, Batch
from asyncfl.federation import Federation
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.run import prepared


@pytest.fixture
def federation(scenario: Scenario) -> Federation:
    return prepared(scenario.override({"data.canaries": {"count": 20}}), 0)


def collected(federation: Federation, client: int, update: np.ndarray, sound: bool = True) -> Batch:
    base = federation.plan.initial
    batch = Batch([Assignment(7, client, 0, base)], (base + update)[None], 0)
    batch.sound[:] = sound
    return batch


def test_an_update_along_the_difference_of_gradients_scores_its_norm(federation: Federation) -> None:
    watch = CanaryScorer()
    seen = watch.around(federation)
    planted, learner, base = federation.data.canaries, federation.learner, federation.plan.initial
    assert planted is not None
    chosen = int(np.flatnonzero(planted.owners == 3)[0])
    part = slice(chosen, chosen + 1)
    towards = learner.gradient(base, planted.images[part], planted.labels[part])
    away = learner.gradient(base, planted.replaced_images[part], planted.replaced_labels[part])
    seen.path.observer.carried_out(collected(federation, 3, -(towards - away) / 1000))  # type: ignore[union-attr]
    scores = watch.scores(HeldReleases(frozenset({7})))
    score = scores["updates"]
    # For so small a step the fall of the loss is close to its slope.
    np.testing.assert_allclose(scores["uploads"], score, rtol=0.1, atol=0.02 * np.nanmax(np.abs(score)))
    assert int(np.nanargmax(score)) == chosen
    assert score[chosen] == pytest.approx(float(((towards - away) ** 2).sum()) / 1000, rel=1e-3)
    # Clients without an upload have no score.
    assert np.isnan(score[planted.owners != 3]).all()
    assert not np.isnan(score[planted.owners == 3]).any()


def test_a_model_trained_on_the_canary_scores_the_fall_of_its_loss(
    federation: Federation,
) -> None:
    watch = CanaryScorer()
    watch.around(federation)
    planted, learner, base = federation.data.canaries, federation.learner, federation.plan.initial
    assert planted is not None
    gradient = learner.gradient(base, planted.images[:1], planted.labels[:1])
    watch.published(1, base)
    watch.published(2, base - gradient / 10)
    found = watch.scores(HeldReleases(versions=(1, 2)))
    before = learner.losses(base, planted.replaced_images[:1], planted.replaced_labels[:1])
    after = learner.losses(base - gradient / 10, planted.replaced_images[:1], planted.replaced_labels[:1])
    own = learner.losses(base, planted.images[:1], planted.labels[:1])
    own -= learner.losses(base - gradient / 10, planted.images[:1], planted.labels[:1])
    assert own[0] > 0
    assert found["last model"][0] == pytest.approx(float(own[0] + after[0] - before[0]), rel=1e-6)
    assert found["models"] == pytest.approx(found["last model"] / 2)
    assert set(watch.scores(HeldReleases(versions=(1,)))) == {"last model"}
    assert watch.scores(HeldReleases()) == {}


@pytest.mark.parametrize(("value", "sound"), [(np.nan, True), (np.inf, True), (1.0, False)])
def test_malformed_uploads_are_not_scored(federation: Federation, value: float, sound: bool) -> None:
    watch = CanaryScorer()
    watch.around(federation)
    update = np.full_like(federation.plan.initial, value)
    watch.carried_out(collected(federation, 3, update, sound))
    assert watch.scores(HeldReleases(frozenset({7}))) == {}


def test_a_canary_client_is_scored_by_the_mean_over_its_samples(scenario: Scenario) -> None:
    federation = prepared(scenario.override({"data.canaries": {"count": 2, "unit": "client"}}), 0)
    planted = federation.data.canaries
    assert planted is not None
    records = CanaryRecords(federation.data, planted, np.array([1]))
    np.testing.assert_array_equal(records.labels, federation.data.client(int(planted.owners[1]))[1])
    assert records.summed(np.arange(20.0)) == pytest.approx([9.5])


def test_long_runs_are_scored_at_evenly_spaced_versions_and_the_last(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = prepared(scenario.override({"data.canaries": {"count": 20}, "protocol.rounds": 7}), 0)
    monkeypatch.setattr(canaries, "MOST_VERSIONS", 3)
    watch = CanaryScorer()
    watch.around(federation)
    base = federation.plan.initial
    for version in range(1, 6):
        watch.published(version, base * version)
    scores = {version: watch.scores(HeldReleases(versions=(version,))) for version in range(1, 6)}
    assert {version for version, found in scores.items() if found} == {2, 4, 5}
    assert watch.scores(HeldReleases(versions=(1, 2, 3)))["last model"].tolist() == scores[2]["last model"].tolist()
    # A model that is not finite has no score.
    watch.published(6, base * np.nan)
    assert np.isnan(watch.scores(HeldReleases(versions=(6,)))["last model"]).all()
    assert watch.scores(HeldReleases(versions=(5,)))["last model"].tolist() == scores[5]["last model"].tolist()


def test_data_without_canaries_are_refused(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="the data have no canaries"):
        CanaryScorer().around(prepared(scenario, 0))


# An upload of 25 kB is 17 packets, all of which the eavesdropper must catch: 0.95^17 = 0.42.
@pytest.mark.parametrize(("packet_loss", "uploads"), [(0.0, range(30, 31)), (0.05, range(1, 30)), (1.0, range(1))])
def test_adversaries_hold_what_they_received(scenario: Scenario, packet_loss: float, uploads: range) -> None:
    tap = {"uplink": True, "downlink": True, "packet_loss": packet_loss}
    run = simulate_seed(scenario.override({"world.tap": tap, "protocol.rounds": 6}), 0)
    held = held_releases(run)
    heard, server, both = held["eavesdropper"], held["server"], held["both"]
    assert len(server.tasks) == 6 * 5, "the server receives an upload of each of five clients in each round"
    assert heard.tasks <= server.tasks
    assert both.tasks == heard.tasks | server.tasks
    assert server.versions == both.versions == held["public"].versions == (1, 2, 3, 4, 5, 6)
    assert held["public_last"].versions == (6,)
    assert held["public"].tasks == held["public_last"].tasks == frozenset()
    assert len(heard.tasks) in uploads
    assert set(heard.versions) <= {1, 2, 3, 4, 5}, "the last version is sent to no client"

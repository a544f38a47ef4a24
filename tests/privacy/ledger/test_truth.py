"""Rows against the truth: linear federations of one parameter, whose exact answer is a likelihood ratio of Gaussians.

A client's update is linear in the model that it was sent and in its data, u = a x + d, and all noise is Gaussian. So
what an adversary really holds is a linear map of all noise, plus a shift where a client's data are others. The whole
map is written down here as it runs, without the package: mu^2 = v^T S^+ v, with v the shift and S the covariance. The
worst neighbour may move each update by its sensitivity, up or down, as it likes: its shifts are searched over all
signs.
"""

from dataclasses import dataclass, field
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.ledger.knowledge import known_releases
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable, VersionTable

RATES = st.sampled_from([0.0, 0.5, 1.0, -0.3])


@dataclass
class Task:
    client: int
    base: int
    weight: float
    sigma: float
    sensitivity: float
    slope: float
    """a: how the update follows the model that was sent."""
    copies: int | None = None
    """Place in the buffer of the update that it copies."""


@dataclass
class Federation:
    """Buffers of tasks, one per version, each from a version that was out by then."""

    buffers: list[list[Task]]
    server_sigma: float
    fixed_weights: bool = True
    tasks: list[Task] = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = [task for buffer in self.buffers for task in buffer]

    @property
    def places(self) -> list[list[int]]:
        starts = np.cumsum([0, *(len(buffer) for buffer in self.buffers)])
        return [list(range(start, start + len(buffer))) for start, buffer in zip(starts, self.buffers, strict=False)]

    def linear(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Uploads and versions as rows over (noises of clients, of the server; shifts of each task).

        Returns uploads (n, n + v), versions (v + 1, n + v), and the same over the n shifts.
        """
        n, v = len(self.tasks), len(self.buffers)
        noise_up, shift_up = np.zeros((n, n + v)), np.zeros((n, n))
        noise_down, shift_down = np.zeros((v + 1, n + v)), np.zeros((v + 1, n))
        for version, places in enumerate(self.places):
            move_noise, move_shift = np.zeros(n + v), np.zeros(n)
            for place in places:
                task = self.tasks[place]
                base_noise, base_shift = noise_down[task.base], shift_down[task.base]
                if task.copies is None:
                    update_noise, update_shift = task.slope * base_noise, task.slope * base_shift
                    update_shift = update_shift + np.eye(n)[place]
                else:
                    victim = places[task.copies]
                    sent = self.tasks[victim].base
                    update_noise = noise_up[victim] - noise_down[sent]
                    update_shift = shift_up[victim] - shift_down[sent]
                update_noise = update_noise + task.sigma * np.eye(n + v)[place]
                noise_up[place], shift_up[place] = base_noise + update_noise, base_shift + update_shift
                move_noise = move_noise + task.weight * update_noise
                move_shift = move_shift + task.weight * update_shift
            noise_down[version + 1] = noise_down[version] + move_noise + self.server_sigma * np.eye(n + v)[n + version]
            shift_down[version + 1] = shift_down[version] + move_shift
        return noise_up, shift_up, noise_down, shift_down

    def truth(self, uploads: list[int], versions: list[int], known: list[int], client: int) -> float:
        """Exact squared mu of the worst neighbour in `client`, for who holds these uploads and versions and knows these
        noises: numbers of tasks, and from n on of the server's."""
        noise_up, shift_up, noise_down, shift_down = self.linear()
        noise = np.vstack([noise_up[uploads], noise_down[versions]])
        shift = np.vstack([shift_up[uploads], shift_down[versions]])
        noise = np.delete(noise, known, axis=1)
        theirs = [place for place, task in enumerate(self.tasks) if task.client == client and task.copies is None]
        worst = 0.0
        for signs in product((-1.0, 1.0), repeat=len(theirs)):
            moved = shift[:, theirs] @ (np.array(signs) * [self.tasks[place].sensitivity for place in theirs])
            worst = max(worst, _squared_mahalanobis(moved, noise))
        return worst

    def sent(self) -> UploadTable:
        n = len(self.tasks)
        version = [number + 1 for number, places in enumerate(self.places) for _ in places]
        copies = [
            -1 if task.copies is None else places[task.copies]
            for buffer, places in zip(self.buffers, self.places, strict=True)
            for task in buffer
        ]
        sensitivity = np.array([task.sensitivity for task in self.tasks])
        return UploadTable(
            task=np.arange(n),
            client=np.array([task.client for task in self.tasks]),
            base_version=np.array([task.base for task in self.tasks]),
            version=np.array(version),
            weight=np.array([task.weight for task in self.tasks]),
            laplace=np.zeros(n, dtype=bool),
            std=np.array([task.sigma for task in self.tasks]),
            sensitivity=sensitivity,
            model_sensitivity=sensitivity,
            count=np.ones(n, dtype=np.int64),
            rate=np.ones(n),
            epsilon=np.ones(n),
            additive=np.ones(n, dtype=bool),
            copy_of=np.array(copies),
        )

    def row(self, uploads: list[int], versions: list[int], client: int, server: bool, members: frozenset[int]) -> float:
        """Squared mu of the ledger's row."""
        v = len(self.buffers)
        held, got = np.full(len(self.tasks), NEVER), np.full(v + 1, NEVER)
        held[uploads], got[versions] = 0, 0
        published = VersionTable(np.where(np.arange(v + 1) > 0, self.server_sigma, 0.0), False, self.fixed_weights, 1.0)
        found = known_releases(self.sent(), published, AdversaryView("any", held, got, server, members))
        return float(found.squared_mu[found.holder == client].sum())


def _squared_mahalanobis(moved: np.ndarray, noise: np.ndarray) -> float:
    """v^T S^+ v, infinite where the shift is where no noise is."""
    if not len(moved) or not moved.any():
        return 0.0
    covariance = noise @ noise.T if noise.size else np.zeros((len(moved), len(moved)))
    values, vectors = np.linalg.eigh(covariance)
    along = vectors.T @ moved
    noisy = values > 1e-12 * max(1.0, values.max(initial=0.0))
    if (np.abs(along[~noisy]) > 1e-8 * np.abs(moved).max()).any():
        return np.inf
    return float(np.sum(along[noisy] ** 2 / values[noisy]))


@st.composite
def federations(draw: st.DrawFn, copies: bool = False) -> Federation:
    clients = draw(st.integers(2, 3))
    server = draw(st.sampled_from([0.0, 0.0, 0.7, 2.0]))
    by_clients = draw(st.booleans()) or server == 0
    sigma = st.sampled_from([0.5, 1.0, 3.0]) if by_clients else st.just(0.0)
    buffers: list[list[Task]] = []
    for version in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 3))
        buffer = [
            Task(
                draw(st.integers(0, clients - 1)),
                draw(st.integers(0, version)),
                draw(st.sampled_from([0.2, 0.5, 1.0])),
                draw(sigma),
                draw(st.sampled_from([0.5, 1.0, 2.0])),
                draw(RATES),
            )
            for _ in range(size)
        ]
        if copies and draw(st.booleans()):
            # Attackers are clients of their own, and a copy holds nothing of theirs.
            buffer += [
                Task(clients, draw(st.integers(0, version)), 0.3, draw(sigma), 0.0, 0.0, copies=0)
                for _ in range(draw(st.integers(1, 2)))
            ]
        buffers.append(buffer)
    return Federation(buffers, server)


def _subset(draw: st.DrawFn, of: int) -> list[int]:
    return [number for number in range(of) if draw(st.booleans())]


def _check(federation: Federation, data: st.DataObject) -> None:
    n, v = len(federation.tasks), len(federation.buffers)
    uploads = data.draw(st.lists(st.integers(0, n - 1), unique=True), label="uploads")
    versions = data.draw(st.lists(st.integers(1, v), unique=True), label="versions")
    server = data.draw(st.booleans(), label="knows the server's noise")
    coalition = frozenset(data.draw(st.sets(st.integers(0, 2), max_size=1), label="coalition"))
    uploads = sorted({*uploads, *(place for place, task in enumerate(federation.tasks) if task.client in coalition)})
    theirs = [place for place, task in enumerate(federation.tasks) if task.client in coalition]
    known = [*theirs, *(range(n, n + v) if server else [])]
    for client in range(3):
        if client in coalition:
            continue
        truth = federation.truth(uploads, versions, known, client)
        row = federation.row(uploads, versions, client, server, coalition)
        assert row >= truth * (1 - 1e-7), (client, row, truth)


@settings(max_examples=100)
@given(federations(), st.data())
def test_no_ledger_row_is_below_the_true_mu(federation: Federation, data: st.DataObject) -> None:
    _check(federation, data)


@settings(max_examples=80)
@given(federations(copies=True), st.data())
def test_no_ledger_row_is_below_the_true_mu_with_copying_attackers(federation: Federation, data: st.DataObject) -> None:
    _check(federation, data)


def _everything(federation: Federation, server: bool) -> None:
    n, v = len(federation.tasks), len(federation.buffers)
    known = list(range(n, n + v)) if server else []
    for client in range(3):
        for uploads in (list(range(n)), []):
            versions = list(range(1, v + 1))
            truth = federation.truth(uploads, versions, known, client)
            row = federation.row(uploads, versions, client, server, frozenset())
            assert row == pytest.approx(truth, rel=1e-6), (client, uploads)


@settings(max_examples=100)
@given(federations(), st.booleans())
def test_ledger_rows_equal_the_true_mu_for_a_full_view(federation: Federation, server: bool) -> None:
    _everything(federation, server)


@settings(max_examples=100)
@given(federations(copies=True), st.booleans())
def test_ledger_rows_equal_the_true_mu_for_a_full_view_with_copies(federation: Federation, server: bool) -> None:
    _everything(federation, server)


def test_noised_copies_are_one_observation_of_the_copied_update() -> None:
    buffer = [
        Task(0, 0, 0.25, 1.0, 2.0, 0.0),
        Task(1, 0, 0.25, 1.0, 2.0, 0.0),
        Task(2, 0, 0.25, 0.5, 2.0, 0.0, copies=0),
        Task(2, 0, 0.25, 0.5, 2.0, 0.0, copies=0),
    ]
    federation = Federation([buffer], 0.1)
    for uploads in ([2], [3], [2, 3], [1, 2], [0, 2], []):
        for versions in ([], [1]):
            truth = federation.truth(uploads, versions, [], 0)
            assert federation.row(uploads, versions, 0, False, frozenset()) == pytest.approx(truth)


def test_settings_that_once_had_too_small_an_epsilon() -> None:
    """Settings of runs whose rows said less than was known."""
    # DP-FedAvg at the server, z = 1.1, replace: 60 versions, of which 16 were caught, the last among them.
    often = [[Task(version % 2, version, 0.25, 0.0, 2.0, 0.0)] for version in range(60)]
    caught = Federation(often, 1.1 / 4)
    for versions in ([60], [*range(4, 61, 4)]):
        assert caught.row([], versions, 0, False, frozenset()) == pytest.approx(30 * (2 / 1.1) ** 2)
    # Clients' noise, z = 4, of 6 in each of 4 versions, all overheard but one upload of client 0.
    sync = Federation([[Task(c, v, 1 / 6, 4.0, 2.0, 1.0) for c in range(6)] for v in range(4)], 0.0)
    told = [place for place in range(24) if place % 6 or place == 0]
    assert sync.row(told, [1, 2, 3, 4], 0, False, frozenset()) == pytest.approx(4 * (2 / 4) ** 2)
    assert exact_epsilon(4 * (2 / 4) ** 2, 1e-5) > exact_epsilon((2 / 4) ** 2 + 3 * (2 / 6) ** 2 / (16 / 6), 1e-5)
    # A whole model of DP-SGD's kind, caught once, carries what its base was made from.
    whole = Federation([[Task(0, v, 0.5, 4.0, 2.0, 1.0), Task(1, v, 0.5, 4.0, 2.0, 1.0)] for v in range(3)], 0.0)
    assert whole.row([5], [], 0, False, frozenset()) == pytest.approx(2 * (0.5 * 2) ** 2 / (2 * 0.25 * 16))


def test_krum_reveals_something_about_the_updates_it_leaves_out() -> None:
    """Krum of six noised numbers: how often it chooses each, where one of them is another."""
    random = np.random.default_rng(1)
    noise = random.normal(size=(200_000, 6))
    chosen = []
    for moved in (0.0, 2.0):
        sent = np.sort(noise + np.array([moved, 0, 0, 0, 0, 0]), axis=1)
        order = np.argsort(noise + np.array([moved, 0, 0, 0, 0, 0]), axis=1)
        distances = np.sort(np.square(sent[:, :, None] - sent[:, None, :]), axis=2)[:, :, 1:4].sum(axis=2)
        chosen.append((np.take_along_axis(order, distances.argmin(axis=1)[:, None], axis=1) == 0).mean())
    here, there = (NormalDist().inv_cdf(share) for share in chosen)
    truth = (here - there) ** 2
    assert chosen[0] > 2 * chosen[1]
    # Client 0 is told to be left out, or to be in: its shift of 2 is hidden by a noise of 1 in either case.
    for weight in (0.0, 1.0):
        tasks = [Task(0, 0, weight, 1.0, 2.0, 0.0), *(Task(c, 0, 1.0 - weight, 1.0, 2.0, 0.0) for c in range(1, 6))]
        federation = Federation([tasks], 0.0, fixed_weights=False)
        assert truth < federation.row([], [1], 0, False, frozenset()) == pytest.approx(2**2)
        assert federation.row([], [], 0, False, frozenset()) == 0
    bare = Federation([[Task(0, 0, 0.0, 0.0, 2.0, 0.0), Task(1, 0, 1.0, 0.0, 2.0, 0.0)]], 3.0, fixed_weights=False)
    assert bare.row([], [1], 0, False, frozenset()) == np.inf

"""The client's half on a machine of its own: what it makes of the server's scenario, and of its own samples.

A client takes part in the scenario that it has a copy of, and in no other, or in the one that its user was shown and
confirmed. All that is random, the noise above all, is drawn from a secret of its process; only a shaped run's world is
drawn from the seed that the server tells. A server cannot have a client import a class or open a file of the server's
choosing: a scenario that names some must be the one that the client has a copy of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace as replaced
from numpy.typing import NDArray

from asyncfl.base.description import fields_of, sound_parts
from asyncfl.base.errors import ScenarioError, shortened
from asyncfl.base.files.yaml_text import read_text, read_yaml
from asyncfl.base.own_classes import IMPORT_PATH
from asyncfl.base.streams import Streams, unknown_seed
from asyncfl.data.client_file import ClientFile
from asyncfl.federation.phases import Workload
from asyncfl.federation.prepare import Federation, ResolvedSeed, privacy_context, started
from asyncfl.learning.personal_layers import PersonalLayers, SharedPartLearner
from asyncfl.live.agreement import DisagreementError, ServerLimits, describe_terms
from asyncfl.live.local_training import LocalTraining
from asyncfl.live.task_runner import ClientSetup
from asyncfl.live.wire import Welcome
from asyncfl.privacy import PrivacyContext
from asyncfl.scenario import Scenario

SERVER = "the server's scenario"


@dataclass(frozen=True)
class Agreement:
    """What the user of a client agrees to before it joins."""

    scenario: Scenario | None = None
    """The only scenario that it takes part in; None: any that names no class and no file of a user's own."""
    shape: bool = False
    """Whether it waits as the scenario's world says."""
    shown: Welcome | None = None
    """The terms that its user was shown and confirmed; None: none."""


def set_up(
    welcome: Welcome, own: ClientFile, agreed: Agreement, executor: Executor, tell: Callable[[str], None]
) -> ClientSetup:
    """Set the client up for the federation that it was let into. `executor`: where it trains.

    `tell`: called with sentences about the federation. Raises DisagreementError, DataError for samples of another
    kind, and ScenarioError for a scenario that this version cannot read.
    """
    scenario, resolved, context = read_terms(welcome, own, agreed)
    data = own.of_client(welcome.client, scenario.data)
    # The server knows the scenario's seed: noise that is drawn from it could be subtracted.
    streams = Streams(unknown_seed())
    world = scenario.world.start(welcome.clients, resolved.streams) if welcome.shape else None
    personal = None
    if scenario.model.personal:
        # Every client begins with the layers that the scenario's seed draws, which are never sent.
        start, _ = started(scenario, data, resolved.streams)
        assert isinstance(start, SharedPartLearner)
        personal = PersonalLayers(start)
    training = LocalTraining(scenario, data, context, streams, personal)
    noise = "no noise" if scenario.privacy.off else f"noise of {scenario.privacy.kind}"
    stay = f" and {len(personal.learner.initial)} that stay here" if personal is not None else ""
    tell(
        f"client {welcome.client} of {welcome.clients}, {scenario.n_parameters} parameters{stay}, {noise}; all "
        "that is random is drawn from a secret of this machine"
    )
    budgets = scenario.budget_tracker(context, data.sizes)
    load = Workload.of(scenario, data.sizes)
    limits = ServerLimits.of(scenario)
    return ClientSetup(welcome.client, scenario, training, executor, load, world, budgets, limits=limits)


def read_terms(welcome: Welcome, own: ClientFile, agreed: Agreement) -> tuple[Scenario, ResolvedSeed, PrivacyContext]:
    """Read what a server wants of a client with its `own` samples. Raises DisagreementError where it was not agreed,
    ScenarioError, and DataError."""
    if welcome.shape != agreed.shape:
        raise DisagreementError(
            "the server's run is shaped: clients wait as the scenario's world says; say --shape to agree"
            if welcome.shape
            else "the server's run is not shaped, and this client agreed to one that is; leave out --shape"
        )
    if agreed.shown is not None and _fixed(welcome) != _fixed(agreed.shown):
        raise DisagreementError("the server's terms are no longer those that were confirmed; join again")
    scenario = read_scenario(welcome, agreed.scenario)
    if not 0 < welcome.smallest_samples <= (math.inf if scenario.privacy.off else len(own)):
        raise DisagreementError(
            f"the server calibrates noise to clients of at least {welcome.smallest_samples} samples, here are "
            f"{len(own)}"
        )
    if scenario.threats is not None and not (scenario.threats.off or scenario.privacy.off):
        raise DisagreementError(
            f"{SERVER} has attackers, and the server says which clients attack: noise does not cover what an attack "
            "makes of an update; such a run needs its clients in one process (asyncfl live here)"
        )
    # The model's size follows from the data set, which is one of images by name if these samples fit it.
    own.of_client(welcome.client, scenario.data)
    resolved = ResolvedSeed(scenario, welcome.seed, welcome.exposures)
    return scenario, resolved, privacy_context(resolved, unknown_sizes(welcome.clients, welcome.smallest_samples))


def _fixed(welcome: Welcome) -> Welcome:
    """Return a welcome without what changes from one connection to the next."""
    return replaced(welcome, client=0, now_s=0.0, gone=())


def terms_of(welcome: Welcome, own: ClientFile, agreed: Agreement) -> dict[str, str]:
    """Return what a client agrees to: name of each matter -> text for its user. Raises as `read_terms` does."""
    scenario, _, context = read_terms(welcome, own, agreed)
    return describe_terms(welcome, scenario, context, len(own))


def read_scenario(welcome: Welcome, agreed: Scenario | None) -> Scenario:
    """Read the scenario of a federation. Raises DisagreementError if it is not the one agreed to, and ScenarioError."""
    description = read_text(welcome.scenario, SERVER)
    if not isinstance(description, dict):
        raise ScenarioError("must be a mapping of fields", SERVER)
    if agreed is not None:
        _check_agreed(description, agreed, welcome)
    elif named := next(_own_classes(description), None):
        raise DisagreementError(
            f"{SERVER} names {shortened(named)!r}, which a client imports only for a scenario that it knows; name your "
            "copy with --scenario"
        )
    drop_server_parts(description, shape=welcome.shape)
    if agreed is None and (file := next(_files(description), None)):
        raise DisagreementError(
            f"{SERVER} names a file in {file}, which a client opens only for a scenario that it knows; name your copy "
            "with --scenario"
        )
    scenario = _parts_of(description, f"{SERVER} (it may have another version of asyncfl)")
    if scenario.data.clients != welcome.clients:
        raise DisagreementError(f"{SERVER} has {scenario.data.clients} clients, it speaks of {welcome.clients}")
    if welcome.client >= welcome.clients:
        raise DisagreementError(f"{SERVER} has {welcome.clients} clients, and this is to be number {welcome.client}")
    return scenario


def drop_server_parts(description: dict[str, Any], *, shape: bool) -> None:
    """Remove from a scenario what only its server needs, whose files may not be here. `shape`: see `Terms`."""
    if not shape:
        # Links and devices are real: of the world only matters who listens.
        world = description.get("world")
        description["world"] = {"tap": world["tap"]} if isinstance(world, dict) and "tap" in world else {}
    if isinstance(description.get("model"), dict):
        # The server sends what training starts from.
        description["model"].pop("initial", None)


def load_agreed(path: Path) -> Scenario:
    """Read the scenario in a file, whose data need not be here. Raises ScenarioError."""
    description = read_yaml(path)
    if not isinstance(description, dict):
        raise ScenarioError("a scenario must be a mapping of fields (data, model, training, ...)", path)
    return _parts_of(description, path)


def _parts_of(description: dict[str, Any], source: str | Path) -> Scenario:
    """Read the parts of a scenario, without checking them against data, which may not be here."""
    parts = sound_parts(Scenario, description)
    if set(parts) != set(Scenario.model_fields) or not set(description) <= set(parts):
        return Scenario.read(description, source)
    return Scenario.model_construct(**parts)


def _check_agreed(description: dict[str, Any], agreed: Scenario, welcome: Welcome) -> None:
    ours, theirs = (fields_of(one) for one in (read_text(agreed.to_yaml()), description))
    # Where the server's test images come from is its own affair.
    wrong = [
        f"{name} is {shortened(theirs.get(name, 'missing'))}, here {shortened(ours.get(name, 'missing'))}"
        for name in sorted({*ours, *theirs})
        if name != "data.source" and ours.get(name) != theirs.get(name)
    ]
    exposures = agreed.privacy.assumed_exposures(agreed.protocol.rounds, agreed.participants, agreed.data.clients)
    if not isinstance(exposures, int):
        wrong.append(
            f"noise is calibrated to {welcome.exposures} exposures, which the server has measured; agree on a number "
            "(privacy.exposures)"
        )
    elif exposures != welcome.exposures:
        wrong.append(f"noise is calibrated to {welcome.exposures} exposures, here {exposures}")
    if welcome.seed not in agreed.seeds:
        wrong.append(f"the seed is {welcome.seed}, here {', '.join(map(str, agreed.seeds[:5]))}")
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise DisagreementError(f"{SERVER} is not the one agreed to: {'; '.join(wrong[:5])}{more}")


def _own_classes(value: Any) -> Iterator[str]:
    """Yield texts that could name a class of a user's own."""
    if isinstance(value, str) and re.fullmatch(IMPORT_PATH, value):
        yield value
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _own_classes(inner)


FILE_FIELDS = ("path", "test_path", "profile", "initial")
"""Fields of a scenario, at any depth, that name files."""


def _files(value: Any, name: str = "") -> Iterator[str]:
    """Yield the dotted names of fields that name a file, or data that are not a data set by name."""
    if name == "data.dataset" and not isinstance(value, str):
        yield name
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        place = f"{name}.{key}" if name else str(key)
        if key in FILE_FIELDS and below is not None:
            yield place
        yield from _files(below, place)


def unknown_sizes(clients: int, fewest: int) -> NDArray[np.int64]:
    """Return sample numbers (clients,) of clients that are only known to have at least `fewest`, not all the same."""
    sizes = np.full(clients, fewest, dtype=np.int64)
    sizes[1:2] += 1
    return sizes


def without_samples(federation: Federation) -> Federation:
    """Return the federation without its clients' samples: clients bring their own, at least the smallest share.

    Noise is calibrated to that number. The server keeps its test samples and `root_samples`.
    """
    data, path, resolved = federation.data, federation.path, federation.resolved
    kept = replace(
        data, images=data.images[:0], labels=data.labels[:0], offsets=np.zeros_like(data.offsets), canaries=None
    )
    path.data = kept
    path.context = privacy_context(resolved, unknown_sizes(data.clients, int(data.sizes.min())))
    path.state = resolved.scenario.privacy.start(path.context)
    return replace(federation, data=kept)

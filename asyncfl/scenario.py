"""The scenario: the one typed description of a run, and how to read, change, name and write it.

A scenario is validated once, and all its faults are reported together. Fields left out get their defaults, so that the
YAML file beside a run states everything on which the run depends.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from asyncfl.algorithms import ALGORITHMS, Algorithm, AnyAlgorithm, FedAvg
from asyncfl.algorithms.algorithm import Payloads, declared
from asyncfl.base.client_state import ClientStates
from asyncfl.base.component import Described, kind_of, own_sources
from asyncfl.base.defaults import changed_defaults, fields_apart
from asyncfl.base.description import explicit_fields, faults_of, override, sound_parts, warn_of_left_out
from asyncfl.base.disclosure import LOSSES, PAYLOADS, SCORES
from asyncfl.base.errors import DataError, Fault, InputError, MissingDataError, ScenarioError, any_of
from asyncfl.base.files.own_folder import FORMAT
from asyncfl.base.files.yaml_text import read_yaml, write_text
from asyncfl.base.former_names import with_current_names
from asyncfl.base.quantities import MeasuredIn
from asyncfl.client.compression import AnyCompression, NoCompression, download_faults
from asyncfl.data import DataSpec
from asyncfl.defences import Defence
from asyncfl.learning import AnyArchitecture, Mlp, Training
from asyncfl.learning.weights import weights_digest
from asyncfl.measurements import Evaluation, Schedule, affordable_interval
from asyncfl.privacy import AnyScheme, MeasuredExposures, NoPrivacy, PrivacyContext
from asyncfl.privacy.exposures import exposure_faults
from asyncfl.privacy.ledger.budgets import BudgetTracker, stop_faults
from asyncfl.privacy.scheme import State, coalition_faults
from asyncfl.privacy.stop_at import StopAt
from asyncfl.protocol import AnyProtocol, Protocol
from asyncfl.protocol.model_step import mode_faults, partial_faults
from asyncfl.protocol.secure_faults import faults_with_secure_aggregation
from asyncfl.protocol.settings import shuffler_faults
from asyncfl.threats import Threats
from asyncfl.world import World

MOST_SEEDS = 100_000
ADDED_SINCE_0_1: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "training",
        "",
        ("steps", "optimizer", "weight_decay", "betas", "eps", "state", "schedule", "version_schedule", "kernels"),
    ),
    ("data", "", ("holders", "test_scaling")),
    ("model", "", ("dropout",)),
    ("protocol", "", ("min_separation", "max_participations", "secure_aggregation")),
    ("world", "", ("evaluate_at",)),
    ("protocol", "sync", ("aggregation", "divide_by")),
)
"""Section, its kind (empty: each), and fields that no run of version 0.1 has in its name; at their defaults they change
nothing."""
UNCHECKED: Final = {"check": False}
"""Context of pydantic for a scenario whose fields are not checked against each other."""
SEEDS = f"must be a number of seeds, 1..{MOST_SEEDS}, or a list of as many different ones"


class Seeding(Described):
    """Groups of random draws with a fixed seed of their own. null: the group follows the seed of the run."""

    data: Annotated[int, Field(ge=0), MeasuredIn("seed")] | None = None
    """Which samples are used, and which client holds them."""
    clock: Annotated[int, Field(ge=0), MeasuredIn("seed")] | None = None
    """Speeds, links, availability and client selection."""
    training: Annotated[int, Field(ge=0), MeasuredIn("seed")] | None = None
    """Initial model, batches, attacks, and noise (see `noise_seed`)."""


class Scenario(Described):
    """A federation: its data, training, protocol, protection and attacks, and the devices and links it runs on."""

    data: DataSpec = DataSpec()
    """The clients' training samples, and the test samples."""
    model: AnyArchitecture = Mlp()
    """Architecture of the model."""
    training: Training = Training()
    """Local training of a client."""
    protocol: AnyProtocol
    """Cooperation of server and clients."""
    algorithm: AnyAlgorithm = FedAvg()
    """Vectors that clients and server exchange beside models and updates, and their use on both sides."""
    compression: AnyCompression = NoCompression()
    """Compression of updates before upload."""
    download_compression: AnyCompression = NoCompression()
    """Compression of published models, once for all clients. Clients train from the decompressed model, and their
    updates are differences from it. Models that a client is asked to score are sent uncompressed. Source: Amiri et al.
    2020, "Federated learning with quantized global model updates"."""
    world: World = World()
    """Speeds of devices, links, availability, eavesdropper."""
    privacy: AnyScheme = NoPrivacy()
    """Clipping and noise."""
    threats: Threats | None = None
    """Attackers and their attack; null for none."""
    defence: Defence = Defence()
    """The server's defence against poisoned updates."""
    evaluation: Evaluation = Evaluation()
    """When published models are evaluated, and what else is measured."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], MeasuredIn("seeds")] = (0,)
    """Seeds of the runs; a whole number N stands for 0..N-1."""
    noise_seed: Annotated[int, Field(ge=0), MeasuredIn("seed")] | None = None
    """Another number draws the privacy noise of every seed anew, and leaves data, training and clock as they are. null:
    the noise follows the seed alone. Runs with the same seed and `noise_seed` share their noise, and whoever knows both
    can subtract it: give a run that you publish a large random number of its own, and keep it secret."""
    seeding: Seeding = Seeding()
    """Random draws that do not follow the seed of the run."""

    @field_validator("seeds", mode="before", json_schema_input_type=int | tuple[Annotated[int, Field(ge=0)], ...])
    @classmethod
    def _count_seeds(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return tuple(range(min(value, MOST_SEEDS + 1)))
        if not isinstance(value, list | tuple):
            raise ValueError(SEEDS)
        return value

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not 1 <= len(value) <= MOST_SEEDS or len(set(value)) != len(value):
            raise ValueError(SEEDS)
        return value

    @model_validator(mode="after")
    def _check_together(self, info: ValidationInfo) -> Scenario:
        if info.context is UNCHECKED:
            return self
        faults = list(_faults_between({name: getattr(self, name) for name in type(self).model_fields}))
        if faults:
            raise ScenarioError(faults)
        return self

    # --- reading ---------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, description: Any, source: str | Path | None = None, check: bool = True) -> Scenario:
        """Return the scenario that `description` (nested mappings) describes. `source`: file named in error messages.

        check: whether fields are checked against each other and against the data and other files that they name; false:
        only each field by itself, and no file is opened.

        Raises: ScenarioError with every fault, MissingDataError where data are not on disk and cannot be downloaded.
        """
        if not isinstance(description, Mapping):
            raise ScenarioError("a scenario must be a mapping of fields (data, model, training, ...)", source)
        try:
            return cls.model_validate(description, context=None if check else UNCHECKED)
        except ValidationError as error:
            between = _faults_between(sound_parts(cls, description)) if check else ()
            raise ScenarioError([*faults_of(error, cls, description), *between], source) from None
        except InputError as error:
            if isinstance(error, MissingDataError) or (isinstance(error, DataError) and error.source is not None):
                raise  # the fault is in a data file
            raise ScenarioError(error.faults, source or error.source) from None

    @classmethod
    def load(cls, path: str | Path, changes: Mapping[str, Any] | None = None, *, recorded: bool = False) -> Scenario:
        """Read a scenario from a YAML file, with the fields named by `changes` (dotted names) changed, see `override`.

        recorded: whether the file is part of a run, which an earlier version may have written with former field names.

        Raises: ScenarioError.
        """
        description = read_yaml(path)
        if recorded:
            description = with_current_names(description, cls)
        if changes and isinstance(description, dict):
            warn_of_left_out(changes, override(description, changes, cls))
        return cls.read(description, path)

    def override(self, changes: Mapping[str, Any], check: bool = True) -> Scenario:
        """Return this scenario with the fields named by `changes` (dotted names) changed; `check` as for `read`.

        A change of `kind` keeps the fields of that component that were given and that the new kind has.

        Raises: ScenarioError for unknown names, and for every fault of the new values.
        """
        description = explicit_fields(self)
        override(description, changes, Scenario)
        return Scenario.read(description, check=check)

    # --- writing ---------------------------------------------------------------------------------------------------

    def settled(self) -> Scenario:
        """Return this scenario with a resolved data source, numbers of versions between evaluations, and one form for
        everything that is switched off.

        Privacy that is off becomes `NoPrivacy` with the same `scores` and `curious`; threats that are off become None.
        """
        data = self.data.model_copy(update={"source": self.data.resolve_source()})
        # However privacy was switched off, equal runs must have one name.
        privacy = self.privacy
        if privacy.off:
            unprotected: NoPrivacy = type(self).model_fields["privacy"].default
            privacy = unprotected.model_copy(update={"scores": privacy.scores, "curious": privacy.curious})
        threats = None if self.threats is None or self.threats.off else self.threats
        schedule = self.evaluation_schedule
        every = {name: getattr(schedule, name) for name in self.evaluation.intervals}
        evaluation = self.evaluation.model_copy(update=every)
        parts = {"data": data, "privacy": privacy, "threats": threats, "evaluation": evaluation}
        return self.model_copy(update=parts)

    def resolved(self) -> dict[str, Any]:
        """Return everything that a run depends on as plain values. Equal runs have equal values, however they were
        described."""
        return self.settled().model_dump(mode="json")

    def to_yaml(self) -> str:
        """Return `resolved()` as YAML that `load` can read."""
        return write_text(self.resolved())

    def digest(self) -> str:
        """Return the name of the run: 16 hexadecimal digits that change with any change of the settled scenario.

        They depend on the fields that are not at their defaults: a field that is added or removed renames no run.
        """
        settled = self.settled()
        # No result depends on the checkpoints.
        kept = settled.evaluation.model_copy(update={"checkpoint": Evaluation.model_fields["checkpoint"].default})
        settled = settled.model_copy(update={"evaluation": kept})
        changed = changed_defaults(settled)
        return self._digest_of({"scenario": fields_apart(settled), **({"defaults": changed} if changed else {})})

    def is_named(self, digest: str) -> bool:
        """Whether `digest` names a run of this scenario, today or in versions up to 0.1, which wrote all fields."""
        if digest == self.digest():
            return True
        described = self.resolved()
        del described["evaluation"]["checkpoint"]
        if self.algorithm.off:
            del described["algorithm"]
        described["training"]["local_steps"] = described["training"].pop("gradient_step")
        apart = fields_apart(self)
        for name, kind, fields in ADDED_SINCE_0_1:
            for field in fields if kind in ("", described[name].get("kind")) else ():
                if field not in apart.get(name, {}):
                    described[name].pop(field, None)
        return digest == self._digest_of({"scenario": described})

    def _digest_of(self, described: dict[str, Any]) -> str:
        # The scenario holds a profile's path; the run depends on the file's content.
        named = {"format": FORMAT, **described, "profiles": self.world.profile_digests()}
        if self.model.initial is not None:
            named["initial"] = weights_digest(self.model.initial)
        if (content := self.data.content_digest()) is not None:
            # Likewise the user's own data: changed samples are another run.
            named["samples"] = content
        if own := own_sources(self):
            # Likewise the user's own components: changed code is another run.
            named["own"] = own
        text = json.dumps(named, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # --- derived ---------------------------------------------------------------------------------------------------

    @property
    def participants(self) -> int:
        """Number of updates in one aggregation if none is lost, called K."""
        return self.protocol.updates_per_version(self.data.clients)

    @property
    def leaks(self) -> frozenset[str]:
        """Flags of what messages of clients tell about their data without noise, besides what the privacy scheme's own
        flags name; see `asyncfl.base.disclosure`."""
        detector = self.defence.detector
        scores = detector is not None and detector.asks_clients and self.privacy.scores is None
        # Payloads are functions of trained models: noise drawn during training covers them.
        leaking = self.payloads.leak and not self.privacy.accounts_for_training
        in_force = {LOSSES: self.protocol.selection.tells_losses, SCORES: scores, PAYLOADS: leaking}
        return frozenset(flag for flag, applies in in_force.items() if applies)

    @property
    def reports_losses(self) -> bool:
        """Whether clients send their training losses: only if the selection of clients needs them, or if no privacy
        scheme protects what they send. Losses have no noise."""
        return LOSSES in self.leaks or self.privacy.off

    def budget_tracker(
        self,
        context: PrivacyContext,
        samples: NDArray[np.integer],
        state: State | None = None,
        states: ClientStates | None = None,
    ) -> BudgetTracker | None:
        """Return a new tracker of the budgets at which clients stop; None without such budgets. `samples`: (clients,)
        training samples; `state`: records trained tasks; `states`: of the clients, None for new ones."""
        if (stop_at := self.privacy.stop_at) is None:
            return None
        counted = _counted(stop_at, self.world, self.defence)
        return BudgetTracker(stop_at, self.privacy, context, samples, state, counted, states)

    @property
    def evaluation_schedule(self) -> Schedule:
        """Versions between two evaluations, with the number that each `auto` of `evaluation` stands for.

        Raises DataError if the number of samples follows from a data set that cannot be opened.
        """
        every, rounds = self.evaluation.intervals, self.protocol.rounds
        auto = 1
        if "auto" in every.values() and self.protocol.time_limit_s is None and self.privacy.stop_at is None:
            per_client, tested = self.data.sample_counts()
            trained = self.participants * self.training.processed(per_client)
            # Each client's own model is tested.
            tested *= self.data.clients if self.model.personal else 1
            held = self.data.clients * per_client
            samples = {"train_every": held, "test_every": tested, "clients_every": held}
            auto = affordable_interval(
                sum(samples[name] for name, one in every.items() if one == "auto"), trained, rounds
            )
        return Schedule(**{name: auto if one == "auto" else one for name, one in every.items()}, last=rounds)

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are published and uploaded: all except personal layers."""
        return int(self.model.parameter_split(self.data.shape, self.data.outputs).shared.n_parameters)

    @property
    def payloads(self) -> Payloads:
        """Vectors that messages carry beside models and updates. Raises ComponentError."""
        # Without an algorithm no data are read for the number of parameters.
        return Payloads() if self.algorithm.off else declared(self.algorithm, self.n_parameters)

    def estimated_cost(self) -> float:
        """Estimate the seconds that one core needs for the run, without loading any data."""
        samples = self.data.samples_per_client or 1000
        tasks = self.protocol.rounds * self.participants
        per_sample_s: float = self.model.seconds_per_sample(self.data.shape, self.data.outputs)
        task_s = self.training.processed(samples) * per_sample_s
        runs = 1 if self.privacy.reference is None else 2
        audit_s = 0.0 if self.evaluation.audit is None else task_s * self.evaluation.audit.trained(self.protocol.rounds)
        return len(self.seeds) * (1.0 + 1.2 * (runs * tasks * task_s + audit_s))


def _under(section: str, faults: Iterable[Fault]) -> Iterator[Fault]:
    return (fault.under(section) for fault in faults)


def _faults_between(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults between the parts of a scenario. Checks are skipped if a part they need is missing."""
    data, model, training, protocol, privacy = map(parts.get, ("data", "model", "training", "protocol", "privacy"))
    threats, defence, world, evaluation = map(parts.get, ("threats", "defence", "world", "evaluation"))
    sound: DataSpec | None = None
    if data is not None:
        wrong = list(data.faults())
        yield from _under("data", wrong)
        sound = None if wrong else data
        if defence is not None:
            yield from _under("defence", data.root_faults(defence.root_samples))
        if threats is not None:
            yield from _under("threats", threats.faults(data.clients, data.classes, data.shape))
    if sound is not None and model is not None:
        if not sound.classes and model.classes_only:
            yield Fault("model.kind", _no_classes(sound, f"{kind_of(model)} answers with"))
        else:
            root_samples = 0 if defence is None else defence.root_samples
            yield from model.faults_with(sound.shape, sound.outputs, root_samples)
    detector = None if defence is None else defence.detector
    if sound is not None and detector is not None and detector.asks_clients and not sound.classes:
        message = _no_classes(sound, f"{kind_of(detector)} asks clients for accuracies of")
        yield Fault("defence.detector.kind", message)
    if sound is not None and defence is not None and not sound.classes:
        for name, rule in defence.rules.items():
            if rule.needs_classes:
                yield Fault(f"defence.{name}.kind", _no_classes(sound, f"{kind_of(rule)} reads predictions of"))
    if world is not None and protocol is not None and protocol.time_limit_s is None:
        for fault in world.progress_faults():
            yield Fault(f"world.{fault.field}", f"{fault.message}; lower it or set protocol.time_limit_s")
    if world is not None:
        yield from _under("world", world.evaluation_faults())
    if world is not None and training is not None:
        yield from _under("world", world.deadline_faults(training.deadline_s))
    if world is not None and evaluation is not None and world.evaluate_s and evaluation.test_every == "auto":
        yield Fault(
            "evaluation.test_every",
            f"must be a number where evaluation takes time (world.evaluate_s is {world.evaluate_s:g}), got auto: the "
            "clock depends on it; set the versions between two evaluations",
        )
    if data is None or protocol is None:
        return
    participants = protocol.updates_per_version(data.clients)
    if threats is not None:
        yield from _under("threats", threats.too_many(participants))
    faults = list(protocol.faults(data.clients))
    yield from _under("protocol", faults)
    if defence is not None:
        if not faults:
            yield from _under("defence", defence.faults(participants))
        for field, rule in defence.rules.items():
            yield from _under("defence", mode_faults(protocol.aggregation, rule, field))
            yield from _under("protocol", partial_faults(protocol.partial_work, rule, field))
    if evaluation is not None:
        if evaluation.aggregates and protocol.aggregation != "delta":
            yield Fault(
                "evaluation.aggregates",
                f"must be false with protocol.aggregation {protocol.aggregation}: errors are those of mean updates, "
                "which other aggregations do not add to the model; leave it out, or set protocol.aggregation to delta",
            )
        if evaluation.audit is not None:
            yield from _under("evaluation.audit", evaluation.audit.faults(data.clients))
            personal = () if model is None else model.personal
            yield from evaluation.audit.training_faults(privacy, training, personal, protocol)
    zeroed = data is not None and data.canaries is not None and data.canaries.excluded == "zeroed"
    if zeroed and training is not None and training.batches != "poisson":
        message = f"must be replaced where training.batches are not poisson, got zeroed with {training.batches}"
        yield Fault("data.canaries.excluded", message)
    if protocol.secure_aggregation is not None:
        yield from faults_with_secure_aggregation(parts)
    if (algorithm := parts.get("algorithm")) is not None and not algorithm.off:
        yield from _algorithm_faults(algorithm, parts)
    if (downloads := parts.get("download_compression")) is not None:
        yield from _under("download_compression", download_faults(downloads))
    if privacy is not None:
        yield from _privacy_faults(parts, not faults)


def _algorithm_faults(algorithm: Algorithm, parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each setting that cannot carry an algorithm's payloads and states, or its use of updates."""
    for setting, is_set in _algorithm_conflicts(algorithm, parts).items():
        if is_set:
            others = [
                kind_of(one) for one in (of() for of in ALGORITHMS) if not _algorithm_conflicts(one, parts)[setting]
            ]
            yield Fault("algorithm.kind", f"must be {any_of(others)} with {setting}, got {kind_of(algorithm)}")


def _algorithm_conflicts(algorithm: Algorithm, parts: Mapping[str, Any]) -> dict[str, bool]:
    """Return for each setting that some algorithm cannot have whether it is made and this one cannot have it."""
    data, model, privacy, evaluation = map(parts.get, ("data", "model", "privacy", "evaluation"))
    protocol, defence = parts.get("protocol"), parts.get("defence")
    trains = algorithm.changes_tasks
    canaries, training = None if data is None else data.canaries, parts.get("training")
    found = {
        "training.momentum": algorithm.plain_steps and training is not None and training.momentum > 0,
        "another optimizer, a schedule, weight_decay or a kept state": algorithm.plain_steps
        and training is not None
        and not training.is_basic,
        "training.deadline_s": algorithm.replaces_training and training is not None and training.deadline_s is not None,
        "training.state: kept": algorithm.replaces_training and training is not None and training.state == "kept",
        "model.personal": trains and model is not None and bool(model.personal),
        "data.canaries.unit: client": trains and canaries is not None and canaries.unit == "client",
        "evaluation.audit": trains and evaluation is not None and evaluation.audit is not None,
        "a privacy scheme that adds noise after each epoch": trains
        and privacy is not None
        and privacy.noise_each_epoch,
        "a privacy scheme that accounts for noise in training": algorithm.replaces_training
        and privacy is not None
        and privacy.accounts_for_training,
        "a privacy scheme whose noise is for gradients clipped in training": algorithm.replaces_training
        and privacy is not None
        and privacy.clips_gradients,
        "privacy.upload: gradient (the mean of plain steps)": (algorithm.changes_steps or algorithm.proximal > 0)
        and privacy is not None
        and privacy.takes_mean_gradient,
        "privacy.shuffler": (trains or algorithm.reads_updates)
        and privacy is not None
        and privacy.mixing_node is not None,
    }
    by_mean = defence is None or (defence.rule.is_linear and defence.detector is None)
    return found | {
        "another aggregation rule than the mean, or a detector": algorithm.reads_updates and not by_mean,
        "protocol.aggregation other than delta (fedasync mixes models)": algorithm.reads_updates
        and protocol is not None
        and protocol.aggregation != "delta",
    }


def _no_classes(data: DataSpec, why: str) -> str:
    return f"{why} classes, but {data.names[0]} is a regression without classes; use another"


def _privacy_faults(parts: Mapping[str, Any], sound_protocol: bool) -> Iterator[Fault]:
    """Yield the faults of a privacy scheme in a scenario with data and protocol."""
    data, protocol, privacy = (parts[name] for name in ("data", "protocol", "privacy"))
    training = parts.get("training")
    yield from _under("privacy", coalition_faults(privacy.curious, data.clients))
    yield from _under("privacy", privacy.faults(data.clients, protocol.rounds, training))
    if privacy.noise_each_epoch and training is not None and (training.steps is not None or not training.is_basic):
        got = "steps" if training.steps is not None else "another optimizer, a schedule, weight_decay or a kept state"
        message = "must be whole epochs of plain SGD where privacy adds noise after each (noise: epoch)"
        yield Fault("training", f"{message}, got {got}; noise each upload instead")
    if data is not None and data.canaries is not None and data.canaries.unit == "client":
        # A zeroed update must still be noised like any other.
        noised = privacy.noise_each_epoch or (training is not None and training.example_noise > 0)
        reason = "the noise is part of its training" if noised else "budgets follow from what all clients have learned"
        if noised or privacy.needs_every_task:
            message = f"must be sample with these privacy settings, got client: {reason}"
            yield Fault("data.canaries.unit", message)
    if privacy.accounts_for_training and privacy.stop_at is not None and (carried := _carried(parts)):
        # A budget counts tasks as they are uploaded: a client that trains and then drops out would carry on unseen.
        message = f"must be null where noise of steps protects what clients carry from task to task ({carried})"
        yield Fault("privacy.stop_at", f"{message}, got {privacy.stop_at}; leave it out, or have nothing carried")
    if protocol.check_norms and privacy.off:
        yield Fault("protocol.check_norms", "must be null or false without privacy, which bounds no norm, got true")
    if not sound_protocol:
        return
    if privacy.mixing_node is not None and "defence" in parts:
        yield from shuffler_faults(data, protocol, parts["defence"])
    if training is not None and protocol.partial_work == "normalised":
        context = _context(parts, 1)
        one, whole = (privacy.update_factor(context, context.smallest_samples, epochs) for epochs in (1, None))
        if one != whole:
            yield Fault(
                "protocol.partial_work",
                "must be whole or work where privacy divides updates by their own steps (as adaptive does with upload: "
                "gradient), got normalised, which divides them by their epochs again",
            )
    participants = protocol.updates_per_version(data.clients)
    exposures = privacy.assumed_exposures(protocol.rounds, participants, data.clients)
    impossible = list(exposure_faults(exposures, protocol.rounds))
    yield from _under("privacy", impossible)
    sound = not impossible and not list(privacy.faults(data.clients, protocol.rounds, None))
    if sound and training is not None and privacy.stop_at is not None:
        yield from _stop_faults(parts, exposures)


def _carried(parts: Mapping[str, Any]) -> str:
    """Return the settings by which what a client uploads depends on its earlier tasks; empty without any."""
    training, model, algorithm = map(parts.get, ("training", "model", "algorithm"))
    found = ["training.state: kept"] if training is not None and training.state == "kept" else []
    found += ["model.personal"] if model is not None and model.personal else []
    found += [f"algorithm {kind_of(algorithm)}"] if algorithm is not None and algorithm.carries else []
    return ", ".join(found)


def _stop_faults(parts: Mapping[str, Any], exposures: int | MeasuredExposures) -> Iterator[Fault]:
    """Yield the faults of budgets that cannot be kept, or that allow no upload. Requires data, training, protocol and
    privacy."""
    threats, compression, stop_at = parts.get("threats"), parts.get("compression"), parts["privacy"].stop_at
    if not stop_at.adversary_is_server and not {"world", "defence"} <= parts.keys():
        return
    counted = None if stop_at.adversary_is_server else _counted(stop_at, parts["world"], parts["defence"])
    field, conflict = "adversary", ""
    if stop_at.adversary == "curious":
        if not parts["privacy"].curious:
            conflict = "curious without curious clients; set privacy.curious, or use another adversary"
        elif stop_at.of == "uploads" and not _asks_clients(parts["defence"]):
            field = "of"
            conflict = "uploads, since no client is asked to score uploads of others; use models or all"
    if stop_at.adversary == "eavesdropper":
        tapped = {"uploads": ("uplink", "scoring"), "models": ("downlink",), "all": ("uplink", "downlink", "scoring")}
        if not any(getattr(parts["world"].tap, link) for link in tapped[stop_at.of]):
            links = " or ".join(tapped[stop_at.of])
            remedy = f"set world.tap.{links}, or use adversary: server"
            conflict = f"eavesdropper where it overhears no {stop_at.of}; {remedy}"
    if conflict:
        yield Fault(f"privacy.stop_at.{field}", f"must not be {conflict}")
    elif counted and threats is not None and not threats.off and threats.attack.sees == "buffer":
        yield Fault(
            "privacy.stop_at.of",
            f"must be uploads with an attack that reads the buffer, got {stop_at.of}: no client knows "
            "these releases in advance; use another attack or of: uploads",
        )
    else:
        context = _context(parts, exposures if isinstance(exposures, int) else 1)
        whole = compression is None or compression.off
        # The noise of a Poisson batch hides more, the more samples there are to draw from.
        data = parts["data"]
        counts_vary = data.samples_per_client is None or data.partition.sizes_from_data
        known = isinstance(exposures, int) and not (context.poisson_sizes and counts_vary)
        yield from _under("privacy", stop_faults(parts["privacy"], context, known, counted, whole))


def _context(parts: Mapping[str, Any], exposures: int) -> PrivacyContext:
    """Return the privacy context of a run before its data are built.

    The ratio of noise to sensitivity does not depend on the number of samples. It depends on the size of the model if
    noise is calibrated to a wrong sensitivity.

    Args:
        parts: Parts of the scenario by name; data, training and protocol are required.
        exposures: Uploads of a client that the eavesdropper is assumed to hold.
    """
    data, training, protocol = (parts[name] for name in ("data", "training", "protocol"))
    model = parts.get("model")
    return PrivacyContext(
        data.clients,
        protocol.updates_per_version(data.clients),
        protocol.rounds,
        smallest_samples=data.samples_per_client or 1,
        exposures=exposures,
        batch_size=training.samples_per_step,
        poisson_sizes=(data.samples_per_client or 1,) if training.batches == "poisson" else (),
        epochs=training.epochs_of(data.samples_per_client or 1),
        steps=training.steps,
        lr=training.lr,
        clips_samples=training.gradient_step == "printed",
        n_parameters=1 if model is None else model.parameter_split(data.shape, data.outputs).shared.n_parameters,
        rate=protocol.rate,
        min_separation=protocol.min_separation or 1,
        max_participations=protocol.max_participations,
        fixed_weights="defence" not in parts or has_fixed_weights(protocol, parts["defence"], parts.get("algorithm")),
    )


def has_fixed_weights(protocol: Protocol, defence: Defence, algorithm: Algorithm | None = None) -> bool:
    """Return whether the values of updates cannot change their weights: linear rule, no detector, aggregation `delta`
    or `mix`, and no algorithm (None: FedAvg) that uses more than the step."""
    if algorithm is not None and not algorithm.post_processes:
        return False
    # A detector may weigh updates, and correct the model by earlier ones.
    return defence.rule.is_linear and defence.detector is None and protocol.aggregation in ("delta", "mix")


def _counted(stop_at: StopAt, world: World, defence: Defence) -> bool:
    """Whether only models count towards the budgets. Models sent for scoring count as updates."""
    if stop_at.adversary == "curious":
        return stop_at.counts_models(_asks_clients(defence))
    return stop_at.counts_models(world.tap.uplink or world.tap.scoring)


def _asks_clients(defence: Defence) -> bool:
    """Whether clients are sent updates of other clients to score them."""
    return defence.detector is not None and defence.detector.asks_clients

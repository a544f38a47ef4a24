"""Files of the models that a run keeps: a safetensors file for each in the folder `models`.

Files are named `<version>.safetensors` in a run of one seed, else `<version>-seed-<seed>.safetensors`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncfl.base.errors import DataError, RunError
from asyncfl.learning.weights import decode_weights, flat_weights, module_with_parameters, read_weights
from asyncfl.results.run_files import RecordedPart
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    import torch

FOLDER = "models"

_NAME = re.compile(r"(\d+)(?:-seed-(\d+))?\.safetensors")

KeptFiles = Mapping[tuple[int, int], bytes | Path]
"""Kept models: (seed, version) -> safetensors bytes or their file."""


def write_models(models: KeptFiles, folder: Path, seeds: int) -> None:
    """Write the models into the folder of a run with `seeds` seeds. Raises OSError."""
    for (seed, version), content in models.items():
        (folder / FOLDER).mkdir(exist_ok=True)
        path = folder / FOLDER / f"{version}{f'-seed-{seed}' if seeds > 1 else ''}.safetensors"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            shutil.copyfile(content, path)


def models_in(folder: Path, seeds: Sequence[int]) -> dict[tuple[int, int], bytes | Path]:
    """Return the files of the kept models in the folder of a run, without loading them: (seed, version) -> file.

    seeds: seeds of the run. A file without a seed in its name belongs to the first.
    """
    found: dict[tuple[int, int], bytes | Path] = {}
    for path in (folder / FOLDER).glob("*.safetensors"):
        if (match := _NAME.fullmatch(path.name)) is not None and path.is_file():
            version, seed = match.groups()
            found[seeds[0] if seed is None else int(seed), int(version)] = path
    return dict(sorted(found.items()))


def kept_module(
    scenario: Scenario,
    data: Mapping[str, Any],
    models: KeptFiles,
    version: int | None,
    seed: int | None,
    client: int | None,
) -> torch.nn.Module:
    """Load a kept model and return it as a torch module, as `Run.model` documents. Raises RunError.

    data: `data` of the run's summary, which holds the shape of a sample and the number of outputs; where it does not,
    as in runs of before, they are those of the scenario's data, which must be on disk.
    """
    chosen = choose(models, version, seed)
    if isinstance(scenario.model, RecordedPart) or isinstance(scenario.data, RecordedPart):
        raise RunError("the network or the data are code of your own, which is not imported; export with --own-code")
    if scenario.model.personal and (client is None or not 0 <= client < scenario.data.clients):
        got = "none" if client is None else client
        allowed = f"must be 0..{scenario.data.clients - 1}, as model.personal leaves each client layers of its own"
        raise RunError(f"client {allowed}, got {got}")
    if not scenario.model.personal and client is not None:
        raise RunError(f"client must be left out, as all clients have the same model (no model.personal), got {client}")
    content = models[chosen]
    source = str(content) if isinstance(content, Path) else f"version {chosen[1]}"
    try:
        weights = read_weights(content) if isinstance(content, Path) else decode_weights(content, source)
        shape, outputs = _recorded_sizes(data) or (scenario.data.shape, scenario.data.outputs)
        if client is not None:
            weights = scenario.model.parameter_split(shape, outputs).of_client(weights, client)
        flat = flat_weights(scenario.model, shape, outputs, weights, source)
        return module_with_parameters(scenario.model, shape, outputs, flat)
    except DataError as error:
        raise RunError(f"{error}; the file is damaged, or the code of the network has changed") from None


def _recorded_sizes(data: Mapping[str, Any]) -> tuple[tuple[int, ...], int] | None:
    """Return the shape of a sample and the number of outputs that a summary holds; None where it holds none."""
    shape, outputs = data.get("shape"), data.get("outputs")
    if not isinstance(shape, list) or not all(type(size) is int and 0 < size < 2**31 for size in (*shape, outputs)):
        return None
    return tuple(shape), int(outputs or 0)


def choose(models: KeptFiles, version: int | None, seed: int | None) -> tuple[int, int]:
    """Return seed and version of a kept model; None stands for the first seed and for its newest version.

    Raises RunError where no such model was kept.
    """
    if not models:
        raise RunError("the run kept no models; run it with evaluation.keep: last, best or {every: N}")
    seeds = sorted({of for of, _ in models})
    seed = seeds[0] if seed is None else seed
    if seed not in seeds:
        raise RunError(f"seed must be one of {', '.join(map(str, seeds))}, got {seed}")
    versions = sorted(at for of, at in models if of == seed)
    version = versions[-1] if version is None else version
    if version not in versions:
        first = versions if len(versions) <= 8 else [*versions[:4], f"... {versions[-1]}"]
        raise RunError(
            f"version must be one that was kept of seed {seed} ({', '.join(map(str, first))}), got {version}"
        )
    return seed, version

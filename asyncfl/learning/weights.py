"""Model weights in files: a flat vector as named arrays, and back.

Files are safetensors, or state dicts written by `torch.save`. From the latter only arrays are read; code in them is
never run.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError, Fault, hint
from asyncfl.base.files.reading import read_bytes
from asyncfl.base.own_classes import own_file
from asyncfl.learning.architecture import Architecture, Shape, untrained_module
from asyncfl.learning.layout import Layout

if TYPE_CHECKING:
    import torch

_MAGIC = (b"PK\x03\x04", b"\x80\x02")
"""First bytes of a file written by `torch.save`, now and before torch 1.6."""


def as_safetensors(
    layout: Layout, parameters: NDArray[np.float32], further: Mapping[str, NDArray[np.float32]] | None = None
) -> bytes:
    """Encode a model (n_parameters,) as a safetensors file, each parameter under its name and in its shape. Equal
    models give equal bytes. `further`: arrays to add as they are, such as those of personal layers."""
    from safetensors.numpy import save

    arrays = {name: parameters[place].reshape(shape) for name, place, shape in layout.parameters()}
    arrays |= further or {}
    # Not np.ascontiguousarray, which makes (1,) of ().
    return save({name: np.asarray(array, np.float32, order="C") for name, array in arrays.items()})


def read_weights(path: str | Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of a weights file by name. Raises DataError if the file cannot be read."""
    content = _content(path)
    if isinstance(content, str):
        raise DataError(f"cannot be read: {content}", path)
    return decode_weights(content, path)


def _content(path: str | Path) -> bytes | str:
    """Read a file; return the reason, as text, if that fails."""
    try:
        return read_bytes(own_file(str(path)))
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, or ~ of an unknown user
        return str(getattr(error, "strerror", None) or error)


def decode_weights(content: bytes, path: str | Path) -> dict[str, NDArray[Any]]:
    """Decode all arrays of a weights file by name; `path` is for messages. Raises DataError for another content."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if content.startswith(_MAGIC):
        return _read_state_dict(content, path)
    try:
        return {name: tensor.double().numpy() for name, tensor in load(content).items()}
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        message = f"must be safetensors, or a state dict that torch.save wrote, and is damaged or neither ({reason})"
        raise DataError(message, path) from None


def _read_state_dict(content: bytes, path: str | Path) -> dict[str, NDArray[Any]]:
    import torch

    try:
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        # For a file with code torch's message has several lines, which explain how to run that code.
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise DataError(f"must be a state dict of tensors alone: {reason}", path) from None
    if not isinstance(found, Mapping) or not all(isinstance(one, torch.Tensor) for one in found.values()):
        raise DataError("must be a state dict: a mapping of names to tensors", path)
    return {str(name): tensor.detach().to_dense().double().numpy() for name, tensor in found.items()}


def flat_weights(
    model: Architecture, shape: Shape, outputs: int, weights: Mapping[str, NDArray[Any]], source: str | Path
) -> NDArray[np.float32]:
    """Assemble the flat vector (n_parameters,) from named arrays, such as those of `read_weights`.

    Buffers of the module and further names of a shared parameter are ignored. Raises DataError, naming `source`, with
    every parameter that is missing, has another shape, is not finite, or is unknown to the network.
    """
    layout = model.layout(shape, outputs)
    wanted, faults = {name: own for name, _, own in layout.parameters()}, []
    for name, own in wanted.items():
        if name not in weights:
            faults.append(Fault(name, f"is missing; the network {model.kind} has it, with shape {own}"))
        elif tuple(weights[name].shape) != own:
            faults.append(Fault(name, f"must have shape {own}, got {tuple(weights[name].shape)}"))
        elif not (np.abs(weights[name]) <= np.finfo(np.float32).max).all():
            faults.append(Fault(name, "must hold finite float32 numbers"))
    if beside := [name for name in weights if name not in wanted]:
        unknown = set(beside) - set(untrained_module(model, shape, outputs).state_dict())
        advice = f"is not a parameter of the network {model.kind}"
        faults += [Fault(name, f"{advice}; {hint(name, wanted, 'it has')}") for name in beside if name in unknown]
    if faults:
        raise DataError(faults, source)
    flat = np.empty(layout.n_parameters, np.float32)
    for name, place, _ in layout.parameters():
        flat[place] = np.asarray(weights[name], np.float64).reshape(-1)
    return flat


def module_with_parameters(
    model: Architecture, shape: Shape, outputs: int, parameters: NDArray[np.float32]
) -> torch.nn.Module:
    """Build the network as an `nn.Module` on the CPU with the parameters (n_parameters,), to evaluate it."""
    import torch

    module = untrained_module(model, shape, outputs).train(not model.draws)
    torch.nn.utils.vector_to_parameters(torch.tensor(parameters), module.parameters())
    return module


def starting_parameters(
    model: Architecture, shape: Shape, outputs: int, generator: torch.Generator
) -> NDArray[np.float32]:
    """Return the parameters (n_parameters,) that training starts from: those of the file `initial`, else random ones.

    Raises DataError, with field and file, if the file is missing, damaged or belongs to another network.
    """
    if model.initial is None:
        return model.initial_parameters(shape, outputs, generator)
    return flat_weights(model, shape, outputs, read_weights(model.initial), model.initial)


def weights_digest(path: str) -> str:
    """Compute the SHA-256 of a weights file, which is part of a run's identity. Raises DataError."""
    content = _content(path)
    if isinstance(content, str):
        raise DataError([Fault("model.initial", f"must be a file of weights, and {path} cannot be read: {content}")])
    return hashlib.sha256(content).hexdigest()

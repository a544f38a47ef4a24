from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from asyncfl.base.errors import DataError
from asyncfl.learning import Mlp
from asyncfl.learning.weights import (
    as_safetensors,
    decode_weights,
    flat_weights,
    module_with_parameters,
    read_weights,
    starting_parameters,
)

SHAPE, CLASSES = (1, 2, 3), 3
MODEL = Mlp(hidden=(2,))
N = 6 * 2 + 2 + 2 * 3 + 3


def parameters() -> np.ndarray[Any, Any]:
    return np.arange(N, dtype=np.float32) / 7


def test_writing_and_reading_a_model_changes_no_bit() -> None:
    layout = MODEL.layout(SHAPE, CLASSES)
    content = as_safetensors(layout, parameters())
    assert content == as_safetensors(layout, parameters())
    found = decode_weights(content, "here")
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {"1.weight": (2, 6), "1.bias": (2,), "3.weight": (3, 2), "3.bias": (3,)}
    assert found["1.bias"] == pytest.approx(np.array([12, 13]) / 7)
    assert np.array_equal(flat_weights(MODEL, SHAPE, CLASSES, found, "here"), parameters())


@pytest.mark.parametrize("name", ["net.pt", "old.pt", "net.safetensors", "half.safetensors"])
def test_training_starts_from_any_kind_of_file(name: str, tmp_path: Path) -> None:
    state = module_with_parameters(MODEL, SHAPE, CLASSES, np.round(parameters())).state_dict()
    path = tmp_path / name
    if name == "half.safetensors":
        save_file({key: tensor.bfloat16() for key, tensor in state.items()}, path)
    elif path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=name != "old.pt")
    started = starting_parameters(Mlp(hidden=(2,), initial=str(path)), SHAPE, CLASSES, torch.Generator())
    assert np.array_equal(started, np.round(parameters()))
    assert started.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"1.bias": None}, r"net\.pt: 1\.bias: is missing; the network mlp has it, with shape \(2,\)"),
        ({"1.bias": torch.zeros(3)}, r"net\.pt: 1\.bias: must have shape \(2,\), got \(3,\)"),
        ({"1.bias": torch.tensor([1.0, float("nan")])}, r"1\.bias: must hold finite float32 numbers"),
        ({"1.bias": torch.tensor([1.0, 1e39], dtype=torch.float64)}, r"1\.bias: must hold finite float32 numbers"),
        ({"1.biass": torch.zeros(2)}, r"1\.biass: is not a parameter of the network mlp; did you mean 1\.bias\?"),
    ],
)
def test_weights_of_another_network_are_refused_by_name(
    change: dict[str, torch.Tensor | None], message: str, tmp_path: Path
) -> None:
    state = module_with_parameters(MODEL, SHAPE, CLASSES, parameters()).state_dict() | change
    torch.save({name: tensor for name, tensor in state.items() if tensor is not None}, tmp_path / "net.pt")
    with pytest.raises(DataError, match=message):
        flat_weights(MODEL, SHAPE, CLASSES, read_weights(tmp_path / "net.pt"), tmp_path / "net.pt")


class _Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_other_files_are_refused_and_code_in_them_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where code that did run would leave its file
    with pytest.raises(DataError, match=r"none\.pt: cannot be read: No such file"):
        read_weights(tmp_path / "none.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(DataError, match="must be a state dict: a mapping of names to tensors"):
        read_weights(tmp_path / "list.pt")
    torch.save({"a": _Runs()}, tmp_path / "code.pt")
    with pytest.raises(DataError, match="must be a state dict of tensors alone"):
        read_weights(tmp_path / "code.pt")
    assert not Path("ran").exists()
    whole = as_safetensors(MODEL.layout(SHAPE, CLASSES), parameters())
    for content in (b"", b"weights", whole[:-4], b"PK\x03\x04 cut"):
        (tmp_path / "cut").write_bytes(content)
        with pytest.raises(DataError, match="cut: must be"):
            read_weights(tmp_path / "cut")

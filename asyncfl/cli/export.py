"""`asyncfl export`: export a model that a run kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.cli.options import Force, argument, option
from asyncfl.cli.output import console


def export(
    run: Annotated[Path, argument("RUN", "Folder of a run with evaluation.keep.")],
    file: Annotated[Path, argument("FILE", "File to write: NAME.safetensors, or any other name for torch.load.")],
    version: Annotated[int | None, option("Version of the model. Default: the newest that was kept.", min=0)] = None,
    seed: Annotated[int | None, option("Seed of the model. Default: the run's first.", min=0)] = None,
    client: Annotated[int | None, option("Client whose personal layers to export, with model.personal.", min=0)] = None,
    own_code: Annotated[bool, option("Import networks of your own (also from RUN).", "--own-code")] = False,
    force: Force = False,
) -> None:
    """Export a model that a run kept, as a state dict.

    Example: asyncfl export results/runs/HASH net.pt --version 20
    """
    from asyncfl.base.files.atomic import atomic_file, check_free
    from asyncfl.results.model_files import choose
    from asyncfl.results.storage import Run

    if own_code:
        look_for_modules_in(run)
    kept = Run.load(run, own_code)
    seed, version = choose(kept.models, version, seed)
    check_free([file], force)
    state = kept.model(version, seed, client).state_dict()
    with atomic_file(file) as part:
        if file.suffix == ".safetensors":
            from safetensors.torch import save

            part.write_bytes(save({name: tensor.clone().contiguous() for name, tensor in state.items()}))
        else:
            import torch

            with part.open("wb") as target:
                torch.save(dict(state), target)
    parameters = sum(tensor.numel() for tensor in state.values())
    whose = "" if client is None else f" at client {client}"
    console.print(f"{file}: version {version} of seed {seed}{whose}, {len(state)} tensors of {parameters} parameters")

"""`asyncfl export`: a model that a run kept, as a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.cli.output import console
from asyncfl.own_classes import look_for_modules_in


def export(
    run: Annotated[Path, typer.Argument(help="folder of a run with evaluation.keep")],
    file: Annotated[Path, typer.Argument(help="file to write: NAME.safetensors, or else a state dict for torch.load")],
    version: Annotated[int | None, typer.Option(help="which of the kept models; default: the newest", min=0)] = None,
    seed: Annotated[int | None, typer.Option(help="of which seed; default: the first", min=0)] = None,
    client: Annotated[int | None, typer.Option(help="whose, where model.personal leaves clients layers", min=0)] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a file that is there")] = False,
) -> None:
    """Export a model that a run kept, as a state dict.

    Example: asyncfl export results/runs/HASH net.pt --version 20
    """
    from asyncfl.files.atomic import atomic_file, check_free
    from asyncfl.kept_models import choose
    from asyncfl.storage import Run

    look_for_modules_in(run)
    kept = Run.load(run)
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

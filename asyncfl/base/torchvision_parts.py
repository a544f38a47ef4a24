"""Import parts of torchvision, even where its kernels do not fit the installed torch."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any


def torchvision_part(name: str) -> Any:
    """Import and return `torchvision.<name>`, such as `datasets` or `models`.

    A CUDA build of torchvision beside a CPU build of torch fails on registering `torchvision::nms`. Data sets and
    networks for classification need none of these kernels, so the import is tried again with the module that registers
    them replaced by an empty one.
    """
    try:
        return importlib.import_module(f"torchvision.{name}")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == "torchvision"]:
            del sys.modules[loaded]
        sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")
        return importlib.import_module(f"torchvision.{name}")

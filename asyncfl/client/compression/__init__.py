"""Compression of uploads and downloads: fewer bits per number, or (uploads only) fewer numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.base.component import choice
from asyncfl.client.compression.compression import (
    BYTES_PER_NUMBER,
    Compression,
    Downloads,
    NoCompression,
    download_faults,
)
from asyncfl.client.compression.quantised import Quantised
from asyncfl.client.compression.top_k import TopK

if TYPE_CHECKING:
    AnyCompression = Compression
else:
    AnyCompression: Any = choice(Compression, NoCompression, Quantised, TopK)

__all__ = [
    "BYTES_PER_NUMBER",
    "AnyCompression",
    "Compression",
    "Downloads",
    "NoCompression",
    "Quantised",
    "TopK",
    "download_faults",
]

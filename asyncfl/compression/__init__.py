"""Compression of uploads and downloads: fewer bits per number, or (uploads only) fewer numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.base.component import choice
from asyncfl.compression.compression import BYTES_PER_NUMBER, Compression
from asyncfl.compression.compressor import Compressor, compressor_of
from asyncfl.compression.downloads import Download, Downloads, download_faults
from asyncfl.compression.none import NoCompression
from asyncfl.compression.quantised import Quantised
from asyncfl.compression.top_k import TopK

if TYPE_CHECKING:
    AnyCompression = Compression
else:
    AnyCompression: Any = choice(Compression, NoCompression, Quantised, TopK)

__all__ = [
    "BYTES_PER_NUMBER",
    "AnyCompression",
    "Compression",
    "Compressor",
    "Download",
    "Downloads",
    "NoCompression",
    "Quantised",
    "TopK",
    "compressor_of",
    "download_faults",
]

"""Conversion of pictures of any mode to bytes, without cutting off what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

Colours = Literal["rgb", "grey"]
_OF_BYTES = ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")
"""Modes that PIL converts to bytes of colours."""
_LARGEST_16 = 65535


def picture_bytes(opened: Image.Image, colours: Colours | None = None) -> Image.Image:
    """Return a picture as bytes of grey or of red, green and blue, turned as its EXIF data say.

    Grey of 16 bits is scaled to bytes, and what is transparent is composed over white. colours: None keeps grey
    pictures grey. Raises ValueError for a mode whose range of values is not known.
    """
    from PIL import Image, ImageOps

    turned = ImageOps.exif_transpose(opened)
    mode = turned.mode
    if mode.startswith("I"):
        numbers = np.asarray(turned).astype(np.int64)
        if numbers.min() < 0 or numbers.max() > _LARGEST_16:
            raise ValueError(
                f"must hold whole numbers 0..{_LARGEST_16} (16 bits), got {numbers.min()}..{numbers.max()} "
                f"(mode {mode}); convert it to 8 or 16 bits"
            )
        turned = Image.fromarray(np.rint(numbers * (255 / _LARGEST_16)).astype(np.uint8))
    elif mode in ("LA", "La", "PA", "RGBA", "RGBa") or (mode in _OF_BYTES and "transparency" in turned.info):
        shown = turned.convert("RGBA")
        turned = Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown).convert(
            "L" if mode.startswith("L") else "RGB"
        )
    elif mode not in _OF_BYTES:
        raise ValueError(
            f"must hold bytes or grey of 16 bits, got mode {mode}, whose range is not known; convert it to 8 or 16 "
            "bits, or give the numbers as kind: npz"
        )
    is_grey = turned.mode in ("1", "L") if colours is None else colours == "grey"
    return turned.convert("L" if is_grey else "RGB")


def picture_array(picture: Image.Image) -> NDArray[np.uint8]:
    """Return a picture as bytes (height, width) of grey, or (height, width, 3). Raises ValueError, see
    `picture_bytes`."""
    return np.asarray(picture_bytes(picture), np.uint8)

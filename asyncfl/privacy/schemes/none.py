"""No privacy: nothing is clipped and no noise is added."""

from __future__ import annotations

from typing import Literal

from asyncfl.privacy.scheme import Scheme


class NoPrivacy(Scheme):
    """Uploads and published models as they are."""

    kind: Literal["none"] = "none"

    @property
    def off(self) -> bool:
        """True: this is what every scheme that is off amounts to."""
        return True

"""Field type for any of the selections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.base.component import choice
from asyncfl.server.informed_selection import Oort, PowerOfChoice
from asyncfl.server.selection import FairSelection, Selection, UniformSelection

if TYPE_CHECKING:
    AnySelection = Selection
else:
    AnySelection: Any = choice(Selection, UniformSelection, FairSelection, PowerOfChoice, Oort)

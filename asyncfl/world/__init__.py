"""Devices, links, availability and the eavesdropper: random draws for each task, without a clock."""

from asyncfl.world.availability import Presence
from asyncfl.world.transfer import Transfer
from asyncfl.world.world import Power, TaskDraws, World, WorldState

__all__ = ["Power", "Presence", "TaskDraws", "Transfer", "World", "WorldState"]

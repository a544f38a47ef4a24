"""Devices, links, availability and the tap: what happens to a task in the world, as pure draws without a clock."""

from asyncfl.world.availability import Presence
from asyncfl.world.state import TaskDraws, WorldState
from asyncfl.world.transfer import Transfer
from asyncfl.world.world import World

__all__ = ["Presence", "TaskDraws", "Transfer", "World", "WorldState"]

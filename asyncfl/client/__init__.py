"""A task at its client: from the received model to the uploaded update."""

from asyncfl.client.assignment import Assignment, work_of
from asyncfl.client.attackers import Attackers
from asyncfl.client.observer import Collection, TaskObserver
from asyncfl.client.path import TaskPath
from asyncfl.client.payloads import Payloads

__all__ = ["Assignment", "Attackers", "Collection", "Payloads", "TaskObserver", "TaskPath", "work_of"]

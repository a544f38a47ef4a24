"""A task at its client: from the received model to the uploaded update, in stages."""

from asyncfl.client.attackers import Attackers
from asyncfl.client.batch import Assignment, Batch, work_of
from asyncfl.client.path import TaskPath
from asyncfl.client.train import Trained

__all__ = ["Assignment", "Attackers", "Batch", "TaskPath", "Trained", "work_of"]

"""What happens to a task at its client, from the model received to the update sent."""

from asyncfl.client.attackers import Attackers
from asyncfl.client.observer import Collection, TaskObserver
from asyncfl.client.path import TaskPath
from asyncfl.client.payloads import Payloads
from asyncfl.client.ticket import Ticket, work_of

__all__ = ["Attackers", "Collection", "Payloads", "TaskObserver", "TaskPath", "Ticket", "work_of"]

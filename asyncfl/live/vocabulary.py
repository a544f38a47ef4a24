"""Messages between a server and its clients.

A client introduces itself (`Hello`) and is let in (`Welcome`) or not (`Refused`). Then the server gives it tasks and
requests for scores, and the client answers each once. Clients tell durations, in seconds since they had the message
that they answer, never times of day: no two clocks have to agree. All lengths are limited where the message is read.
Each field of a message declares what it discloses about training data (`asyncfl.base.disclosure`).
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from asyncfl.base.disclosure import BUDGETS, LOSSES, SCORES, Leak, Public, Released

VERSION = 3
"""Of all that is said here, and of the frames that carry it. Two halves of different versions do not understand each
other, and say so."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Number: TypeAlias = Annotated[int, Meta(ge=-1, le=2**53)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
ServerNumber: TypeAlias = Annotated[Count, Public("the server gave this number")]
_TIME = Public("devices, links and availability decide it, not the values of samples")
_CHOICE = Leak(LOSSES, Public("the server chose the client at random, by its tasks so far or by times"))
Word: TypeAlias = Annotated[str, Meta(max_length=100)]
Text: TypeAlias = Annotated[str, Meta(max_length=1000)]
Tasks: TypeAlias = Annotated[tuple[Count, ...], Meta(max_length=100)]


class Noted(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Something that happened at a client, for the trace."""

    after_s: Annotated[Seconds, _TIME]
    """Seconds after the client had the task, or the request."""
    kind: Annotated[Word, Leak(BUDGETS, Public("links, availability, and noise and number of uploads decide it"))]
    size: Annotated[Number, Public("the model's and the compression's size")] = -1
    attempt: Annotated[Number, Public("the link decides it")] = -1
    detail: Annotated[
        Text, Leak(BUDGETS, Public("direction, epochs by a deadline, or noise and number of uploads"))
    ] = ""


SENT = "sent"
"""Kind of a note of a message of a request for scores, for its bytes: it is no event."""

Report: TypeAlias = Annotated[tuple[Noted, ...], Meta(max_length=4096), Leak(BUDGETS, Public("see `Noted`"))]
"""What happened at a client, in its order."""


class Message(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all messages."""


# --- by clients ----------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True):
    """A client introduces itself. The first that it says, and again when it is back."""

    name: Annotated[str, Meta(min_length=1, max_length=100), Public("the client's owner chose it")]
    token: Annotated[str, Meta(max_length=200), Public("the server's operator gave it")]
    samples: Annotated[Count, Public("neighbouring data sets replace samples or updates, and keep their number")]
    tasks: Annotated[Tasks, Public("availability decides it")] = ()
    """Tasks that it is still at."""
    instance: Annotated[Word, Public("drawn at random")] = ""
    """Random name of this process, so that one that is back is told from a second that uses the same name."""


class Ready(Message, frozen=True):
    """The client has prepared itself, and waits for the beginning. Sent once, after the first `Welcome`."""

    online: Annotated[bool, Public("the world decides it")]
    """Whether the world has it online at the beginning."""
    spent: Annotated[Text | None, Leak(BUDGETS, Public("noise and number of uploads decide it"))]
    """Why it cannot afford a single upload; None: it can."""


class Update(Message, frozen=True):
    """A task is done. The model comes with it: (1, n_parameters), with the noise of the privacy scheme."""

    task: ServerNumber
    loss: Annotated[float | None, Leak(LOSSES, Public("not sent"))]
    """Mean training loss of the last local epoch; None: not needed (`Scenario.reports_losses`)."""
    added_std: Annotated[float, Leak(BUDGETS, Public("it follows from the scheme and the number of samples"))]
    """Standard deviation of the noise that was added when the training was over."""
    epsilon: Annotated[float | None, Leak(BUDGETS, Public("the scheme's, the same in each run"))]
    """Budget of this upload; None: the same for all."""
    report: Report
    epochs: Annotated[Annotated[int, Meta(ge=1, le=2**53)] | None, Public("the speed of the device decides it")] = None
    """Passes over its samples that it comes of; None: all of a task."""


class Gone(Message, frozen=True):
    """A task has ended without an update."""

    task: ServerNumber
    fate: Annotated[Word, Public("availability, links, deadlines and budgets decide it")]
    """`Fate` of the task."""
    report: Report


class Scores(Message, frozen=True):
    """The answer to a request for scores."""

    request: ServerNumber
    scores: Annotated[
        Annotated[tuple[float, ...], Meta(max_length=4096)] | None, Leak(SCORES, Released("privacy.scores"))
    ]
    """One for each model; None: there will be none."""
    report: Report


class Spent(Message, frozen=True):
    """The client's privacy budget is spent: after the task that it is at, it answers no more."""

    detail: Annotated[Text, Leak(BUDGETS, Public("noise and number of uploads decide it"))]


class Trace(Message, frozen=True):
    """Events of a task or request that the client abandons, for the trace alone: the server decides nothing by them."""

    task: Annotated[Number, Public("the server gave this number")]
    """Its task; -1: a request for scores."""
    report: Report


class Leaving(Message, frozen=True):
    """The client takes part no longer, and abandons its task."""


class Pong(Message, frozen=True):
    """The answer to a `Ping`."""


# --- by the server -------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True):
    """The client is let in."""

    client: ServerNumber
    run: Annotated[Word, Public("drawn at random")]
    """Name of the run, another one each time."""
    scenario: Annotated[str, Meta(max_length=200_000), Public("the operator wrote it")]
    """The scenario as YAML."""
    seed: Annotated[Count, Public("the operator chose it; noise from it is flagged")]
    clients: Annotated[Count, Public("the scenario's")]
    smallest_samples: Annotated[Count, Public("neighbouring data sets keep the number of samples")]
    """Samples of the client that has fewest: noise is calibrated to it."""
    exposures: Annotated[Count, Public("the scenario's, or measured on a clock without data")]
    """Uploads of one client that an eavesdropper is assumed to hold."""
    shape: Annotated[bool, Public("the operator chose it")]
    """Whether the client waits as the scenario's world says."""
    speedup: Annotated[float, Meta(gt=0, le=1e6), Public("the operator chose it")]
    """Seconds of the scenario in a second."""
    now_s: Annotated[float, Meta(ge=-1e12, le=1e12), _TIME]
    """Seconds of the scenario since the start; below 0 before it."""
    gone: Annotated[Tasks, _TIME]
    """Tasks that the client is at, and that nobody waits for any more."""


class Begin(Message, frozen=True):
    """The run begins now, or began `now_s` ago."""

    now_s: Annotated[Seconds, _TIME] = 0.0


class Task(Message, frozen=True):
    """Train this model: (1, n_parameters), with the noise of its updates or the server's."""

    task: Annotated[Count, _CHOICE]
    turn: Annotated[Count, _CHOICE]
    """Tasks that the client was given before."""
    version: ServerNumber
    attacks: Annotated[bool, Public("the experiment draws the attackers")] = False
    """Whether the client is to attack: the experiment's affair, not the federation's."""


class Judge(Message, frozen=True):
    """Score these models on your own data: (n_models, n_parameters), updates with the noise of their clients."""

    request: ServerNumber
    turn: Annotated[Count, Released("the updates that the detector compares")]
    """Requests that the client was sent before."""
    last_version: Annotated[Count, _CHOICE] = 0
    """Base version of its task that was collected last."""
    last_turn: Annotated[Count, _CHOICE] = 0
    attacks: Annotated[bool, Public("the experiment draws the attackers")] = False
    """Whether that task was an attacker's."""


class Ping(Message, frozen=True):
    """Are you there?"""


class Refused(Message, frozen=True):
    """The server ends the connection, for this reason."""

    reason: Annotated[Text, Public("the connection's settings decide it")]


class Over(Message, frozen=True):
    """The run is over, for this reason."""

    reason: Annotated[Text, Leak(BUDGETS, Released("published models and verdicts; else times and budgets decide it"))]


FromClient: TypeAlias = Hello | Ready | Update | Gone | Scores | Spent | Trace | Leaving | Pong
FromServer: TypeAlias = Welcome | Begin | Task | Judge | Ping | Refused | Over

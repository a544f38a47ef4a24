"""Twins: neighbouring worlds in which one client trains its tasks again, from the same base models, with the same
streams, on data in which one sample, or everything, is another.

For Gaussian noise the distance of the two uploads over the noise is an exact lower bound on the privacy loss, whatever
is claimed of it; where the distance exceeds the sensitivity that the noise was calibrated to, the assumption is
disproved by example. Over the uploads of a run squared distances add up. All of it is conditional on the recorded base
models, and on whatever else the other world would have changed meanwhile: the other clients' updates, the decisions of
the server. What the clip norm and the budgets of the twin's own uploads would have been is followed.
"""

from asyncfl.twins.audit import TwinsObserver
from asyncfl.twins.neighbours import Neighbour
from asyncfl.twins.tables import Audited, audited

__all__ = ["Audited", "Neighbour", "TwinsObserver", "audited"]
"""What an audit needs."""

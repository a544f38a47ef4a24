"""Audit with neighbouring data sets: one client's tasks are trained again on data in which one sample, or all, differ.

The world of such a data set is called a twin: same base models, same random streams. For Gaussian noise the distance of
the two uploads over the noise is an exact lower bound on the privacy loss, whatever is claimed; where the distance
exceeds the sensitivity that the noise was calibrated to, the assumption is disproved by example. Over the uploads of a
run squared distances add up. All of it is conditional on the recorded base models, and on whatever else the other world
would have changed: the other clients' updates, the decisions of the server. Clip norm and budgets of the twin's own
uploads are followed.
"""

from asyncfl.extras.audit.neighbours.findings import Audited, audited
from asyncfl.extras.audit.neighbours.observer import TwinsObserver

__all__ = ["Audited", "TwinsObserver", "audited"]

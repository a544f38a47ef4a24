"""Lower bounds on epsilon from an attacker's guesses: pure functions of scores and membership coins."""

from asyncfl.privacy.estimators.intervals import interval
from asyncfl.privacy.estimators.one_run import GuessPlan, guess_plans

__all__ = ["GuessPlan", "guess_plans", "interval"]

"""Lower bounds on epsilon from an attacker's guesses: pure functions of scores and membership coins."""

from asyncfl.privacy.estimators.guesses import GuessPlan, guess_plans
from asyncfl.privacy.estimators.intervals import interval

__all__ = ["GuessPlan", "guess_plans", "interval"]

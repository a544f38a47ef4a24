"""What an attacker's guesses show about epsilon, from below: pure functions of scores and coins."""

from asyncfl.privacy.estimators.guesses import GuessPlan, guess_plans
from asyncfl.privacy.estimators.intervals import interval

__all__ = ["GuessPlan", "guess_plans", "interval"]

"""Audits of a finished run: what an attacker finds out from what was released, beside what is claimed.

They simulate seeds of the run once more and look on (`again`); nothing of a run has to be kept for them.
"""

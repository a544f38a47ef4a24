"""What is built on the core, which imports nothing of it: live federations, audits, calibration, pages, stress tests.

An extra begins where a user would: at an `Instrument`, or at the folder of a finished run.
"""

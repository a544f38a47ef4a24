"""Extensions of the core, which imports none of them: live federations, audits, calibration, pages, stress tests.

An extra begins where a user would: at an `Instrument`, or at the folder of a finished run.
"""

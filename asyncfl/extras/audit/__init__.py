"""Audits of a finished run: measured lower bounds on epsilon, membership inference and reconstruction.

An audit simulates the run's seeds again and observes them (`finished_run`), so a run stores nothing for its audits.
"""

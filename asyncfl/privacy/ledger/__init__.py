"""The privacy ledger: what each adversary learned from a run.

`releases` and `model_releases` describe what an adversary holds, `views` and `knowledge` what follows from it, and
`accounts` its epsilon. `rows` and `spending` produce the tables at the end of a run and over time. `budgets` counts
during the run for clients that stop at `stop_at`.
"""

"""The privacy ledger: what each adversary learned from a run.

`releases` and `model_releases` describe what an adversary holds, `views` and `knowledge` what follows from it,
`accounts` its epsilon over time and `rows` the table at the end. `budgets` counts during the run for clients that stop
at `stop_at`.
"""

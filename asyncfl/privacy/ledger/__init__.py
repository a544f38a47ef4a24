"""What a run gave away, to each adversary: `releases` and `published` are what it holds, `accounts` what that is worth.

`tables` and `spending` write it down, at the end and over time; `budgets` counts while the run goes on, for clients
that stop at `stop_at`.
"""

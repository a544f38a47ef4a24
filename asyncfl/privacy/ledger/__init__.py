"""The privacy ledger: what each adversary learned from a run, and what clients that stop at a budget have spent."""

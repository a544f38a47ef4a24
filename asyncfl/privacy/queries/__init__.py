"""Questions about noise and bounds that need no run: the answers of `asyncfl privacy` and `asyncfl bounds`.

A question is a pydantic model whose faults are reported together; its answer is a plain dict. `epsilon_and_noise`
relates noise and budgets, `nbafl` and `bounds` concern that scheme.
"""

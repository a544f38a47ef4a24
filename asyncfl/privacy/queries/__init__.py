"""Questions about noise and bounds that need no run: what `asyncfl privacy` and `asyncfl bounds` answer.

A question is a description whose faults are found together, its answer a plain dict. `releases` asks what noise is
worth and how much a budget needs, `nbafl` and `bounds` about that scheme.
"""

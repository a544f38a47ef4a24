"""From values by seed to an answer: comparisons, what they are worth as evidence, and how claims are put together.

`samples`      values by seed, paired by the seed's number
`p_values`     one comparison at one look: Student's t, signs, binomial, or no randomness at all
`looks`        after how many seeds one may look, and at what level
`decision`     comparisons put together: all of them, or any of them
`power`        what could have been seen, and how many seeds it would take
`discoveries`  q-values over a table of verdicts
"""

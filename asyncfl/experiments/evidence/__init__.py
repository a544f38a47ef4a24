"""From values by seed to an answer: samples, the test of one comparison, and comparisons put together."""

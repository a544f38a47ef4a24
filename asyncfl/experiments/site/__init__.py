"""The pages that show all results: a front page with the score, and a page per paper."""

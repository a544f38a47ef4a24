"""Lower bounds on epsilon from an attacker's guesses: pure functions of scores and membership coins."""

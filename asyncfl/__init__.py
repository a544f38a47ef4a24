"""asyncfl: simulate federated learning that is private, attacked and late."""

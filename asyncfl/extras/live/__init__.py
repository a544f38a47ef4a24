"""The same server in an asyncio loop: in real time, shaped by a scenario's world, or on simulated time.

In the order of a message's way: messages (`client_messages`) come over connections within this process (`host`) to a
state machine per client (`remote_client`), and to the server with all its clients (`live_federation`). The client's
half is `client`, `task_runner`, `local_training`. On several machines Flower carries the messages (`flower`).
"""

"""The same server in real time: asyncio drives it over sockets, or over memory.

In the order of a message's way: messages and their bytes (`wire`), over a connection (`connections`), to a state
machine per client (`remote_client`), the server with all its clients (`live_federation`), and the asyncio shell around
them (`host`). The client's half is `client`, `task_runner`, `local_training`. On machines of their own the halves know
each other by `keys`, and the client makes of the scenario what `joining` says.
"""

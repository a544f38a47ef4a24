"""The same server in real time: asyncio drives it over sockets, or over memory.

In the order of a message's way: what the two halves say to each other (`vocabulary`), as bytes (`wire`), over a
connection (`transport`, `sockets`); the server's half (`host`, `sessions`, `desk`) and the client's (`client`, `work`).
"""

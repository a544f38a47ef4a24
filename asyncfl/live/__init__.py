"""The same server in real time: asyncio drives it over sockets, or over memory.

In the order of a message's way: what the two halves say to each other (`vocabulary`), as bytes (`wire`), over a
connection (`transport`, `sockets`); the server's half (`host`, with `sessions` of its connections, `presence`,
`questions`, `payloads` and `reports`) and the client's (`client`, `errands`, `work`). On machines of their own the one
holds what `serving` leaves it, the other what `joining` makes of it, and they know each other by `keys`.
"""

"""The same server as a `ServerApp` of Flower, and its clients as a `ClientApp`.

In the order of a message's way: what is sent over a grid, in words that need no Flower (`messages`), the two ways
between it and what server and clients say to each other (`node`), who carries it (`post`), Flower's own records
(`records`); a run (`held`), its clients (`client`, as an app: `client_app`), and the folder that `flwr run` takes
(`app_folder`). What is Flower's is imported where it is needed.
"""

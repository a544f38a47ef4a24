"""The same server as a `ServerApp` of Flower, and its clients as a `ClientApp`.

Messages as bytes (`frames`) and as Flower's records (`records`), the nodes of a grid as clients (`nodes`), our client
as an app (`client_app`), a server for other apps (`own`), and the folder that `flwr run` takes (`app_folder`).
"""

"""TorchServe's handler contract, for every runtime that serves such handlers.

`frames` is what travels between the server and the process that holds the handler. On the server's side `model` makes a
Model of it; in the handler's process `calls` runs it, by way of `loading` and `envelopes`.
"""

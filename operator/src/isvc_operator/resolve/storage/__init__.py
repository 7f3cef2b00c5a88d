"""How the model gets to the server: which URIs, with which credentials, copied or mounted. Pure.

``requests`` reads what a service requests, and names the objects to read first; ``plan`` turns a request and those
objects into what the storage-initializer and the server are given.
"""

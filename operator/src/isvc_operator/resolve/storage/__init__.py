"""How the model gets to the server: which URIs, with which credentials, copied or mounted. Pure.

``planning`` turns what a component requests, and the objects that were read for it, into what the storage-initializer
and the server are given.
"""

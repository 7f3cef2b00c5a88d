"""Sends a prediction request to a service as its clients do, wherever it runs: finds its address, protocol and model.

``payload``, ``target`` and ``answer`` are pure. ``cluster`` reads what a service's address follows from;
``send`` sends.
"""

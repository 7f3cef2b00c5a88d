"""One module for each kind of source. A backend lists files and opens any part of them. Staging, concurrency, retries,
verification, layout and progress are the same for all, in ``transfer`` and ``download``.

A backend module has ``open_source(transfer, plan) -> Source``. ``registry`` imports it at its first use, so that the
libraries of one kind of source are not loaded for another.
"""

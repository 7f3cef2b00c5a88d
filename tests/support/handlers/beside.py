"""Lies beside the handler in the archive, to be imported by it."""

WORD = "imported from the archive"

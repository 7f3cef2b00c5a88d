"""Needs a package that only the archive's requirements bring."""

import conformance_words


def handle(data, context):
    return None if data is None else [conformance_words.WORD] * len(data)

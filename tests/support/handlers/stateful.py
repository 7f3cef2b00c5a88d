"""A handler that keeps a sum for each sequence, as TorchServe's stateful example does.

A request is a number to add, or a word: `headers` tells what the handler sees of the request, `fail` raises, `die` ends
the process, and `wait PATH` returns when there is a file of that name.
"""

import os
import time
from pathlib import Path


def handle(data, context):
    if data is None:
        context.cache = {}
        return None
    batch = [context.get_sequence_id(index) for index in range(len(data))]
    return [_answer(row, context, index, batch) for index, row in enumerate(data)]


def _answer(row, context, index, batch):
    word, _, argument = _text(row).partition(" ")
    if word == "headers":
        names = (context.header_key_sequence_id, context.header_key_sequence_start, context.header_key_sequence_end)
        return {name: context.get_request_header(index, name) for name in names}
    if word == "fail":
        raise ValueError("as the request asked")
    if word == "die":
        os._exit(9)
    if word == "wait":
        _wait(Path(argument))
        word = "0"
    sequence = batch[index]
    context.cache[sequence] = context.cache.get(sequence, 0) + int(word)
    told = {"sum": context.cache[sequence], "worker": os.getpid(), "batch": batch}
    return told if isinstance(row, dict) else told["sum"]


def _text(row):
    value = (row.get("data") or row.get("body")) if isinstance(row, dict) else row
    return bytes(value).decode() if isinstance(value, bytes | bytearray) else str(value)


def _wait(path):
    path.with_suffix(".reached").touch()
    while not path.exists():
        time.sleep(0.01)

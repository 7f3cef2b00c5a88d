"""Answers by its first row alone, as handlers do that were written for one row at a time."""

import time


def handle(data, context):
    if data is None:
        return None
    time.sleep(0.05)  # long enough for others to come
    body = data[0]["body"]
    return [bytes(body)] * len(data)

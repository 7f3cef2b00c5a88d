"""Answers by its first row alone, as handlers do that were written for one row at a time."""

import time


def handle(data, context):
    if data is None:
        return None
    time.sleep(0.05)  # long enough for others to come
    row = data[0]
    return [bytes(row["body"]) if "body" in row else row["data"]] * len(data)

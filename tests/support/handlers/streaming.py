"""A handler that sends its answers in pieces, by TorchServe's own function; a request says what else it wants."""

import json
import os
import time
from pathlib import Path

from ts.handler_utils.utils import send_intermediate_predict_response


def handle(data, context):
    if data is None:
        return None
    first = asked(data[0])
    for number in range(first.get("words", 3)):
        if number == first.get("raise_at"):
            raise ValueError("no more words")
        if number == first.get("die_at"):
            os._exit(9)
        if "type" in first:
            context.set_response_content_type(0, first["type"])
        while number == 1 and "wait_for" in first and not Path(first["wait_for"]).exists():
            time.sleep(0.001)
        word = first.get("size", 1) * f"word {number} "
        send_intermediate_predict_response([word], context.request_ids, "a word", 200, context)
    return ["end of it"]


def asked(row):
    """As JSON, as text, or as an instance of the v1 and v2 protocols."""
    body = row.get("body") or row.get("data") if isinstance(row, dict) else row
    return body if isinstance(body, dict) else json.loads(body)

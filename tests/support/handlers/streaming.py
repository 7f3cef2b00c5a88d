"""A handler that sends its answers in pieces, by TorchServe's own function; a request says what else it wants."""

import json
import os
import time

from ts.handler_utils.utils import send_intermediate_predict_response


def handle(data, context):
    if data is None:
        return None
    wanted = [json.loads(row.get("body") or row.get("data")) if not isinstance(row, str) else {} for row in data]
    first = wanted[0]
    for number in range(first.get("words", 3)):
        if number == first.get("raise_at"):
            raise ValueError("no more words")
        if number == first.get("die_at"):
            os._exit(9)
        if number == first.get("hang_at"):
            time.sleep(3600)
        if "type" in first:
            context.set_response_content_type(0, first["type"])
        time.sleep(first.get("pause_s", 0.0))
        words = [one.get("name", "") + first.get("size", 1) * f"word {number} " for one in wanted]
        send_intermediate_predict_response(words, context.request_ids, "a word", 200, context)
    return [f"end of {one.get('name', 'it')}" for one in wanted]

"""A continuous-batching handler as TorchServe's examples write one: state in `context.cache`, a criterion for each row.

A request is `{"words": n}` and what else it wants; each step gives it one more word. The texts tell who else was in the
batch, so that a client sees how it was served.
"""

import json
import os
import time

PAUSE_S = 0.005


class Continuous:
    def initialize(self, context):
        context.cache = {}

    def handle(self, data, context):
        ids = list(context.request_ids.values())
        for request_id, row in zip(ids, data, strict=True):
            if request_id not in context.cache:
                wanted = asked(row)
                context.cache[request_id] = {"wanted": wanted, "told": 0, "rows": []}
                context.cache[request_id]["stops"] = stops_after(wanted.get("words", 3), context.cache, request_id)
            context.cache[request_id]["rows"].append(sorted(row))
        for request_id in [one for one in context.cache if one not in ids]:  # its client is gone
            del context.cache[request_id]
        time.sleep(PAUSE_S)
        results = [self.word(context, index, request_id, len(ids)) for index, request_id in enumerate(ids)]
        context.stopping_criteria = [context.cache[request_id]["stops"] for request_id in ids]
        return results

    def word(self, context, index, request_id, others):
        state = context.cache[request_id]
        wanted, told = state["wanted"], state["told"]
        state["told"] += 1
        if told == wanted.get("raise_at"):
            raise ValueError("no more words")
        if told == wanted.get("die_at"):
            os._exit(9)
        if "type" in wanted:
            context.set_response_content_type(index, wanted["type"])
        match wanted.get("tell", "words"):
            case "rows":
                return str(state["rows"][-1])
            case "batch":
                return f"{others},"
            case "header":
                return f"{context.get_request_header(index, 'x-word')},"
            case "json":
                return {"text": f"word {told}", "ids": [told]}
            case "cached":
                return f"{len(context.cache)},"
        return wanted.get("size", 1) * f"word {told} "


def stops_after(words, cache, request_id):
    """A criterion: whether this was the last word of a request, which is then forgotten."""

    def stops(_):
        if cache[request_id]["told"] < words:
            return False
        del cache[request_id]
        return True

    return stops


def asked(row):
    body = row.get("body") or row.get("data")
    return body if isinstance(body, dict) else json.loads(body)

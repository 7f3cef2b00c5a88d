"""Says how it is configured. A request that is a teapot gets the status of one."""

import os


def handle(data, context):
    if data is None:
        return None
    return [_answer(index, row, context) for index, row in enumerate(data)]


def _answer(index, row, context):
    if (row.get("data") or row.get("body")) == b"teapot":
        context.set_response_status(418, "I am a teapot", index)
        return "short and stout"
    return {
        "batch_size": context.system_properties["batch_size"],
        "rank": os.environ.get("RANK"),
        "version": context.manifest["model"]["modelVersion"],
        "yaml": context.model_yaml_config,
    }

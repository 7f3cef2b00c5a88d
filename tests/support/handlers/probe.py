"""Does what the request's header `x-do` says: one archive shows all that a handler can see, return and raise."""

import json
import os
from pathlib import Path

import torch
from ts.handler_utils.utils import send_intermediate_predict_response
from ts.utils.util import PredictionException

RESULTS = {
    "str": "a text",
    "bytes": b"\x00\x01 bytes",
    "bytearray": bytearray(b"a bytearray"),
    "dict": {"label": "seven", "score": 0.5, "nested": {"list": [1, 2]}},
    "list": [1, 2.5, "three", None, True],
    "int": 7,
    "float": 0.1,
    "none": None,
    "bool": True,
    "nan": float("nan"),
    "unicode": {"word": "Grüße"},
    "empty": "",
    "set": {1, 2},
    "object": object(),
}
ERRORS = {
    "ValueError": ValueError("cannot read this"),
    "PredictionException": PredictionException("a custom message", 418),
    "PredictionException-default": PredictionException("a custom message"),
    "MemoryError": MemoryError(),
    "CUDA": RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
}


class Probe:
    def initialize(self, context):
        pass

    def handle(self, data, context):
        do = context.get_request_header(0, "x-do") or "show"
        argument = context.get_request_header(0, "x-argument")
        if do == "whole":
            return self.whole(argument, data)
        if do == "one_output":
            return [data[0]["data"]]
        return [getattr(self, do)(row, index, context, argument) for index, row in enumerate(data)]

    # --- what a handler sees ------------------------------------------------------------------------------

    def show(self, row, index, context, argument):
        """The row itself, with the types of its values."""
        if not isinstance(row, dict):
            return shown(row)
        return {name: shown(value) for name, value in sorted(row.items())}

    def data(self, row, index, context, argument):
        """What a tensor of the v2 protocol holds."""
        return row["data"]

    def header(self, row, index, context, argument):
        return {"value": context.get_request_header(index, argument)}

    def all_headers(self, row, index, context, argument):
        return dict(sorted(context.get_all_request_header(index).items()))

    def request_id(self, row, index, context, argument):
        return context.get_request_id(index)

    def system_properties(self, row, index, context, argument):
        model_dir = context.system_properties["model_dir"]
        assert Path(model_dir, "probe.py").is_file()
        return {**context.system_properties, "model_dir": "the folder of the archive's files"}

    def manifest(self, row, index, context, argument):
        return context.manifest

    def model_config(self, row, index, context, argument):
        return context.model_yaml_config

    def model_name(self, row, index, context, argument):
        return context.model_name

    def extra_files(self, row, index, context, argument):
        """Found below model_dir, and by a relative path: a worker runs in its model's folder."""
        absolute = Path(context.system_properties["model_dir"], "words.txt").read_text()
        return {"absolute": absolute, "relative": Path("words.txt").read_text()}

    def imported(self, row, index, context, argument):
        import beside

        return beside.WORD

    def environment(self, row, index, context, argument):
        names = sorted(name for name in os.environ if name.startswith("TS_"))
        return {name: os.environ[name] for name in names}

    # --- what a handler returns ---------------------------------------------------------------------------

    def result(self, row, index, context, argument):
        return torch.arange(3) if argument == "tensor" else RESULTS[argument]

    def respond(self, row, index, context, argument):
        for name, value in json.loads(argument).items():
            if name == "status":
                context.set_response_status(value, "Made", index)
            elif name == "content-type":
                context.set_response_content_type(index, value)
            else:
                context.set_response_header(index, name, value)
        return "made"

    def all_status(self, row, index, context, argument):
        context.set_all_response_status(202, "Taken")
        return "taken"

    def whole(self, argument, data):
        """A result that is not one for each row."""
        if argument == "tensor":
            return torch.zeros(len(data))
        return {
            "few": data[:-1],
            "many": [0] * (len(data) + 1),
            "dict": {"rows": len(data)},
            "none": None,
            "tuple": tuple(0 for _ in data),
        }[argument]

    def fail(self, row, index, context, argument):
        raise ERRORS[argument]

    def stream(self, row, index, context, argument):
        for piece in ("one, ", "two, "):
            send_intermediate_predict_response([piece], context.request_ids, "a piece", 200, context)
        return "three"

    # --- metrics ------------------------------------------------------------------------------------------

    def measure(self, row, index, context, argument):
        metrics = context.metrics
        metrics.add_counter("ProbeCounter", 2)
        metrics.add_time("ProbeTime", 12.5, None, "ms")
        metrics.add_size("ProbeSize", 3, None, "MB")
        metrics.add_percent("ProbePercent", 50)
        metrics.add_error("ProbeError", 1)
        return "measured"


def shown(value):
    if isinstance(value, bytes | bytearray):
        return {type(value).__name__: value.decode("latin-1")}
    return {type(value).__name__: value}

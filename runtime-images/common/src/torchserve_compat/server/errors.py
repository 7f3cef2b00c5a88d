"""Errors of a handler and its worker, the same on both runtimes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from data_plane.errors import UpstreamBroken

# What is beside the server on this machine is in its image on a cluster, and its memory has a limit there.
BESIDE = "beside the server (on a cluster: in its image)"
MORE_MEMORY = "give it more, on a cluster by resources.limits.memory"
_REPACK = "Correct the handler or the files of the model, and serve it again."
_CURE_OF_WEIGHTS = (
    "The model has no weights that TorchServe's BaseHandler could load; add a .pt, or of several name one (isvc pack "
    "--serialized-file), or load them in an initialize of your own."
)
# Causes that no change of the handler's code mends, by what the exception says.
_CURES = (
    (
        re.compile(r"No model weights could be loaded|locating file constants\.pkl"),
        "TorchServe's base_handler loads TorchScript from a .pt, and a state_dict with a model file "
        "(isvc pack --model-file); other weights need a handler of your own, or are served without an archive.",
    ),
    (
        re.compile(r"^'NoneType' object has no attribute 'endswith'$"),  # the path of the weights, in its initialize
        _CURE_OF_WEIGHTS,
    ),
    (
        re.compile(r"Expected only one class as model definition"),
        "Leave only the network's class in the model file, and import others from files beside it.",
    ),
    (
        re.compile(r"Expected only one class in custom service code"),
        "Write one class in the handler's file and import others from files beside it, or write a function `def "
        "handle(data, context)`, which is called once with None as data, to load.",
    ),
    (
        re.compile(r"Error\(s\) in loading state_dict"),
        "The weights are not those of the class in the model file; pack the two that belong together.",
    ),
    (
        re.compile(r"failed reading zip archive"),
        "The weights are truncated, or not saved by this version of torch (a .pt without a model file: by "
        "torch.jit.save); save and pack them again.",
    ),
    (
        re.compile(r"^(?P<library>\S+\.so\S*): cannot open shared object file"),
        f"Install the library {{library}} {BESIDE}, or use a package that does not need it.",
    ),
    (
        re.compile(r"CUDA out of memory"),
        "Use a GPU with more memory, fewer workers (minWorkers), or a smaller model.",
    ),
    (
        re.compile(r"can't allocate memory|^Unable to allocate "),
        "Give the server more memory, on a cluster by resources.limits.memory, or start fewer workers (minWorkers).",
    ),
)
# The cause in torch.load's long message.
_WEIGHTS_ONLY = re.compile(r"Weights only load failed.*WeightsUnpickler error:\s*(.+?)(?:\. |\n|$)", re.DOTALL)
_CURE_OF_OBJECTS = (
    "torch.load loads only tensors from a file that is not trusted. If you trust this file, set "
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 in the server's environment; else save a state_dict, or TorchScript."
)
# Where TorchServe's loader calls what stands after the colon of the handler.
_CALL_OF_FUNCTION = re.compile(r"model_loader\.py:\d+ in <lambda>")
_CURE_OF_FUNCTION = (
    "What follows the colon of the handler is called as a function, with (data, context). For a class, name only its "
    "file: handler.py."
)
# Where TorchServe's BaseHandler looks at the name of the weights, which is None if the manifest has none.
_USE_OF_WEIGHTS = re.compile(r"base_handler\.py:\d+ in initialize")


def cause_of(failure: Mapping[str, str | None], *, installs: bool) -> str:
    """Return why a handler could not be loaded, or how it ended its worker: the exception, its place, and the fix.

    `installs`: whether the server installs the model's requirements.
    """
    message = failure["message"] or ""
    if objects := _WEIGHTS_ONLY.search(message):
        message, fix = objects[1], _CURE_OF_OBJECTS
    else:
        fix = _fix(failure, message, installs)
    at = f" (at {failure['where']})" if failure["where"] else ""
    return f"{failure['type']}{': ' if message else ''}{message}{at}. {fix}"


def describe_late_start(model: str, archive: str, timeout_s: float) -> str:
    """Return one line: what took too long, and the settings for the limit."""
    return (
        f"Model {model} ({archive}) was not loaded within {timeout_s:g} s (startupTimeout); raise it in the model's "
        "settings, or default_startup_timeout in config.properties, or load less in `initialize`."
    )


def _fix(failure: Mapping[str, str | None], message: str, installs: bool) -> str:
    missing = failure["missing_module"]
    if missing and not failure["where"]:
        return (
            f"The handler is neither a file {missing}.py of the model nor one of TorchServe's own; add the file, or "
            "name another handler when you pack the model."
        )
    if missing:
        setting = "" if installs else " with install_py_dep_per_model=true"
        return (
            f"Add the package with the module {missing} to the model's requirements.txt{setting}, or install it "
            f"{BESIDE}; add a module of your own to the model's files."
        )
    if failure["type"] == "TypeError" and _CALL_OF_FUNCTION.fullmatch(failure["where"] or ""):
        return _CURE_OF_FUNCTION
    if failure["type"] == "AttributeError" and _USE_OF_WEIGHTS.fullmatch(failure["where"] or ""):
        return _CURE_OF_WEIGHTS
    if failure["type"] == "MemoryError":
        message = "can't allocate memory"
    found = ((pattern.search(message), fix) for pattern, fix in _CURES)
    return next((fix.format(**match.groupdict()) for match, fix in found if match), _REPACK)


class WorkerBroken(UpstreamBroken):
    component = "worker"

"""An archive's YAML with values that are not numbers, too small or too large: TorchServe ignores them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.case import Case, predictions

NUMBERS = (
    "batchSize", "responseTimeout", "startupTimeout", "jobQueueSize", "clientTimeoutInMills", "maxBatchDelay",
    "minWorkers", "maxWorkers", "maxRetryTimeoutInSec",
)  # fmt: skip
_VALUES = {"zero": "0", "negative": "-1", "fraction": "1.5", "large": "2147483648", "text": "'8'", "empty": "",
           "list": "[1, 2]"}  # fmt: skip
# By model: its YAML.
YAML: Mapping[str, str] = {
    **{model: "".join(f"{name}: {value}\n" for name in NUMBERS) for model, value in _VALUES.items()},
    "crossed": "minWorkers: 3\nmaxWorkers: 2\n",
    "level": "parallelLevel: 1\n",
    "torchrun": "parallelLevel: 2\ntorchrun:\n  nproc-per-node: 2\n",
}
_FEATURES = {
    **{model: f"an archive's YAML: every number is `{value}`" for model, value in _VALUES.items()},
    "empty": "an archive's YAML: every number is empty",
    "crossed": "an archive's YAML: `minWorkers` above `maxWorkers`",
    "level": "an archive's YAML: `parallelLevel: 1` without `parallelType`",
    "torchrun": "an archive's YAML: `torchrun` and `parallelLevel: 2` without `parallelType`",
}
CASES = (
    *(Case(f"yaml-{model}", _FEATURES[model], model, predictions(model)) for model in YAML),
    Case("teapot", "response: `set_response_status` with 418", "zero", predictions("zero", b"teapot"), 418),
)

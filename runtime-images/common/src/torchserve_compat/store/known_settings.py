"""All settings of TorchServe 0.12, and what each of our runtimes does with them. Pure.

The tables below are the only source: a runtime's notices at its start (`notices`) and docs/torchserve-settings.md come
from them. A test compares them with the settings in TorchServe's own jar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from data_plane.limits import MAX_REQUEST


class Runtime(Enum):
    """A runtime, by the name of its ClusterServingRuntime."""

    TORCHSERVE = "kserve-torchserve"
    MAR = "isvc-mar"


class Effect(Enum):
    SAME = "as TorchServe"
    OTHERWISE = "different effect"
    NONE = "no effect"
    REFUSED = "exit code 3"


@dataclass(frozen=True)
class Values:
    """Some of the values of a setting; `label` describes them unless all values are included."""

    label: str
    include: Callable[[str], bool]


@dataclass(frozen=True)
class Outcome:
    """What a runtime does with a setting that has one of `values`; `why` gives the reason and the alternative."""

    effect: Effect
    why: str = ""
    values: Values = Values("", lambda _: True)


@dataclass(frozen=True)
class Setting:
    """One key. The first of a runtime's outcomes whose values include the current one applies; the default is SAME.

    `overruled_by`: another key; if it is set, this one has no effect, in TorchServe either. `least`: the least value of
    a whole number, None for a setting of another type.
    """

    name: str
    torchserve: tuple[Outcome, ...]
    mar: tuple[Outcome, ...]
    overruled_by: str = ""
    least: int | None = None

    def outcome(self, runtime: Runtime, value: Any) -> Outcome:
        text = str(value).strip().lower()
        outcomes = self.torchserve if runtime is Runtime.TORCHSERVE else self.mar
        return next((one for one in outcomes if one.values.include(text)), _SAME)


_SAME = Outcome(Effect.SAME)
USUAL = frozenset({
    "inference_address", "management_address", "metrics_address", "grpc_inference_port", "grpc_management_port",
    "enable_metrics_api", "metrics_format", "max_response_size", "number_of_netty_threads", "netty_client_threads",
})  # fmt: skip
"""Settings of config.properties that KServe's own example has: nobody chose them, and nothing is lost without them."""
MAX_NUMBER = 2**31 - 1
"""The largest number of a setting in TorchServe, which is Java's int."""
LEAST: Mapping[str, int] = {
    "max_request_size": 1, "max_response_size": 1, "job_queue_size": 1, "default_workers_per_model": 0,
    "default_response_timeout": 1, "default_startup_timeout": 1, "number_of_gpu": 0, "unregister_model_timeout": 0,
    "number_of_netty_threads": 0, "netty_client_threads": 0, "metric_time_interval": 1,
    "initial_worker_port": 1, "initial_distribution_port": 1,
    "minWorkers": 0, "maxWorkers": 0, "batchSize": 1, "maxBatchDelay": 0, "responseTimeout": 1, "startupTimeout": 1,
    "jobQueueSize": 1, "clientTimeoutInMills": 0, "maxRetryTimeoutInSec": 1, "parallelLevel": 1,
    "sequenceMaxIdleMSec": 0, "sequenceTimeoutMSec": 0, "maxNumSequence": 1, "maxSequenceJobQueueSize": 1,
}  # fmt: skip
"""The settings that are whole numbers, with the least value that makes sense."""
_ODD_VARIABLES = {"token_expiration_min": "TS_TOKEN_EXPIRATION_TIME_MIN"}


def variable(setting: str) -> str:
    """Return the environment variable for a setting of config.properties."""
    return _ODD_VARIABLES.get(setting) or f"TS_{setting.removeprefix('ts_').upper()}"


def _otherwise(why: str) -> Outcome:
    return Outcome(Effect.OTHERWISE, why)


def _without_effect(why: str, *, unless: str | None = None) -> Outcome:
    """Return the outcome without effect. `unless`: the value that matches the fixed behaviour."""
    if unless is None:
        return Outcome(Effect.NONE, why)
    return Outcome(Effect.NONE, why, Values(f"other than `{unless}`", lambda value: value not in (unless, "")))


def _refused(why: str, label: str, include: Callable[[str], bool]) -> Outcome:
    return Outcome(Effect.REFUSED, why, Values(label, include))


def _is_true(value: str) -> bool:
    return value == "true"


def _same(*names: str) -> tuple[Setting, ...]:
    return tuple(Setting(name, (_SAME,), (_SAME,)) for name in names)


def _both(name: str, *outcomes: Outcome, overruled_by: str = "") -> Setting:
    return Setting(name, outcomes, outcomes, overruled_by)


def _of_torchserve(name: str, instead: str, *, unless: str | None = None) -> Setting:
    return Setting(name, (_SAME,), (_without_effect(instead, unless=unless),))


def _adapted(name: str, adapter: str, instead: str, *, unless: str | None = None) -> Setting:
    """Given to TorchServe as the adapter needs it, which logs each change."""
    return Setting(name, (_otherwise(adapter),), (_without_effect(instead, unless=unless),))


def _by_name(*settings: Setting) -> Mapping[str, Setting]:
    return {setting.name: replace(setting, least=LEAST.get(setting.name)) for setting in settings}


_DOOR = "the server's ports are set by --http-port and --grpc-port (HTTP_PORT, GRPC_PORT)"
_BY_REPOSITORY = "models are loaded and unloaded by /v2/repository, with enable_model_api=true; remove it"
_NO_JAVA = "there is no Java; remove it"
_PLAIN = (
    "which would be served in the open: TLS is served with the certificate in --tls-dir, which a service asks for "
    "by its annotation isvc-operator.io/tls-secret; write http:// or remove it"
)
_TLS = "a certificate is read from --tls-dir only; remove it"
_TOKENS = "which would be served to everybody: tokens are not checked here; let the Ingress authenticate, and remove it"
_SEVERAL_PROCESSES = (
    "a model in several processes that torchrun starts; serve it with the runtime kserve-torchserve, or remove it from "
    "the archive's YAML"
)
_ONE_PROCESS = _without_effect("without parallelType, a model is one process in TorchServe too; remove it")
_HTTPS = _refused(_PLAIN, "`https://…`", lambda value: value.startswith("https"))
_FILLED_IN = _otherwise("missing fields are filled in, and a model gets at least one worker")

# Keys of config.properties; also of the environment, as TS_NAME, with enable_envvars_config=true.
PROPERTIES = _by_name(
    Setting("inference_address", (_HTTPS, _otherwise(_DOOR)), (_HTTPS, _without_effect(_DOOR))),
    _adapted(
        "management_address",
        "on loopback, and only with enable_model_api=true; https becomes http there",
        _BY_REPOSITORY,
    ),
    _adapted("metrics_address", "/metrics is on the server's port", "/metrics is on the server's port; remove it"),
    _adapted("grpc_inference_address", _DOOR, _DOOR),
    _adapted("grpc_management_address", "on loopback only", _BY_REPOSITORY),
    _adapted("grpc_inference_port", _DOOR, _DOOR),
    _adapted("grpc_management_port", "on loopback only", _BY_REPOSITORY),
    *(
        _both(f"grpc_{api}_max_connection_age{grace}_ms", _without_effect("clients keep their connections; remove it"))
        for api in ("inference", "management")
        for grace in ("", "_grace")
    ),
    _both("enable_grpc_ssl", _refused(_PLAIN, "`true`", _is_true)),
    *(
        _both(name, _without_effect(_TLS))
        for name in ("keystore", "keystore_pass", "keystore_type", "certificate_file", "private_key_file")
    ),
    _both(
        "disable_token_authorization",
        _refused(_TOKENS, "`false`", lambda value: value == "false"),
    ),
    _both("token_expiration_min", _without_effect("tokens are not checked here; let the Ingress authenticate")),
    _both(
        "load_models",
        _otherwise("by default, all archives of the store are loaded, or those that `models` names"),
        overruled_by="model_snapshot",
    ),
    _both("models", _FILLED_IN, overruled_by="model_snapshot"),
    _both("model_snapshot", _FILLED_IN),
    _both("model_store", _otherwise("relative to the model directory; by default, model-store or mar-store")),
    _both("service_envelope", _otherwise("`kserve` by default, because the v1 protocol needs it")),
    _both(
        "max_request_size",
        _otherwise(
            f"for each request, not for a batch; --max-request-size takes precedence; {MAX_REQUEST} by default"
        ),
    ),
    _both("job_queue_size", _otherwise("the limit of the server's own queue: further requests for a model get 429")),
    Setting(
        "default_workers_per_model",
        (_SAME,),
        (_otherwise("by default, one for each processor or GPU of the model's share, four at most"),),
    ),
    *_same(
        "default_response_timeout", "default_startup_timeout", "number_of_gpu", "blacklist_env_vars",
        "limit_max_image_pixels", "decode_input_request",
        "cors_allowed_origin", "cors_allowed_methods", "cors_allowed_headers", "enable_envvars_config",
    ),
    _both("install_py_dep_per_model", _otherwise("what the image has satisfies a requirement, as with `useVenv`")),
    Setting(
        "metrics_config",
        (_otherwise("relative to the model directory"),),
        (_otherwise("only the handlers' own metrics; relative to the model directory"),),
    ),
    _adapted("metrics_mode", "always `prometheus`", "metrics are at /metrics, not in the log", unless="prometheus"),
    _adapted("enable_metrics_api", "always `true`", "/metrics is always served; remove it", unless="true"),
    _of_torchserve(
        "model_metrics_auto_detect", "/metrics has all metrics of handlers, defined or not; remove it", unless="true"
    ),
    _adapted(
        "disable_system_metrics",
        "`true` by default",
        "node metrics are not collected; remove it, and use your cluster's monitoring",
        unless="true",
    ),
    _of_torchserve("metric_time_interval", "node metrics are not collected; remove it"),
    _of_torchserve("system_metrics_cmd", "node metrics are not collected; remove it"),
    _adapted("max_response_size", "raised for batches of responses", "responses can have any size; remove it"),
    Setting(
        "enable_model_api",
        (_otherwise("its port is on loopback only, and so is /v2/repository"),),
        (_otherwise("models are loaded and unloaded by /v2/repository, on loopback only; there is no management API"),),
    ),
    _both(
        "ts_open_inference_protocol",
        _without_effect("v2 is always served, over REST and gRPC; remove it", unless="oip"),
    ),
    *_same("ts_header_key_sequence_id", "ts_header_key_sequence_start"),
    _both("ts_header_key_sequence_end", _otherwise("a request with the value `true` ends its sequence at once")),
    _both("workflow_store", _without_effect("workflows are not served; call the models from a transformer")),
    _both("model_server_home", _without_effect("the server has a folder of its own, --work-dir; remove it")),
    _of_torchserve("debug", "write default_workers_per_model=1 for one worker", unless="false"),
    _of_torchserve("default_service_handler", "the archive's manifest names its handler; pack it again with --handler"),
    _of_torchserve("unregister_model_timeout", "a model finishes its requests before it is unloaded; remove it"),
    _of_torchserve("allowed_urls", "archives come from the model store only; name them in the service's storageUri"),
    _of_torchserve("use_env_allowed_urls", "archives come from the model store only; remove it", unless="false"),
    _of_torchserve("number_of_netty_threads", "one event loop takes all requests; remove it"),
    _of_torchserve("netty_client_threads", "one event loop takes all requests; remove it"),
    _of_torchserve("prefer_direct_buffer", _NO_JAVA, unless="false"),
    _of_torchserve("use_native_io", _NO_JAVA, unless="true"),
    _of_torchserve("io_ratio", _NO_JAVA),
    _of_torchserve("async_logging", _NO_JAVA, unless="false"),
    _adapted("vmargs", "by default, a heap of an eighth of the container's memory", _NO_JAVA),
    _of_torchserve("plugins_path", "plugins are Java's; serve with the runtime kserve-torchserve"),
    _of_torchserve("ipex_enable", "import intel_extension_for_pytorch in the handler", unless="false"),
    _of_torchserve("ipex_gpu_enable", "import intel_extension_for_pytorch in the handler", unless="false"),
    _of_torchserve(
        "cpu_launcher_enable", "set OMP_NUM_THREADS and minWorkers, or serve with kserve-torchserve", unless="false"
    ),
    _of_torchserve("cpu_launcher_args", "set OMP_NUM_THREADS and minWorkers, or serve with kserve-torchserve"),
    _of_torchserve("cpp_log_config", "handlers are Python's; remove it"),
    _of_torchserve("initial_worker_port", "workers have no ports; remove it"),
    _of_torchserve("initial_distribution_port", "workers have no ports; remove it"),
)  # fmt: skip

_WORKERS = Setting(
    "maxWorkers",
    (_SAME,),
    (_otherwise("there are `minWorkers`, as in TorchServe until its management API is called"),),
)
_BATCH_SIZE = _both("batchSize", _otherwise("up to 32 instances by default, see batching.md"))
_BATCH_DELAY = _both("maxBatchDelay", _otherwise("no request waits for others to come, see batching.md"))
_OF_WORKERS = (*_same("minWorkers", "responseTimeout", "startupTimeout"), _WORKERS, _BATCH_SIZE, _BATCH_DELAY)
_PARALLEL = _refused(_SEVERAL_PROCESSES, "pp, tp, pptp, custom", lambda value: value in ("pp", "tp", "pptp", "custom"))

# Parameters of a version in `models` and `model_snapshot`.
PARAMETERS = _by_name(
    *_OF_WORKERS,
    *_same("marName", "defaultVersion"),
    Setting(
        "parallelLevel",
        (_SAME,),
        (_refused(_SEVERAL_PROCESSES, "2 and more", lambda value: value.isdecimal() and int(value) > 1), _ONE_PROCESS),
    ),
    Setting(
        "runtimeType", (_SAME,), (_without_effect("handlers are Python's; remove it", unless="python"),)
    ),
)  # fmt: skip

# Keys of an archive's YAML, which its manifest names as configFile.
ARCHIVE = _by_name(
    *_OF_WORKERS,
    *_same("deviceType"),
    Setting("deviceIds", (_SAME,), (_otherwise("a missing GPU ends the server with exit code 3"),)),
    Setting("parallelType", (_SAME,), (_PARALLEL,)),
    Setting("parallelLevel", (_SAME,), (_ONE_PROCESS,)),
    Setting("torchrun", (_SAME,), (_ONE_PROCESS,)),
    _both("jobQueueSize", _otherwise("the limit of the server's own queue: further requests for the model get 429")),
    _both("clientTimeoutInMills", _otherwise("a request gets a 504 after this time, including its time in the queue")),
    _both(
        "useJobTicket",
        _without_effect("a request waits for a worker, up to jobQueueSize of them; remove it", unless="false"),
    ),
    Setting(
        "maxRetryTimeoutInSec",
        (_SAME,),
        (_without_effect("the server exits when a worker dies five times without a response; remove it"),),
    ),
    Setting(
        "useVenv",
        (_SAME,),
        (_without_effect("packages of requirementsFile are the archive's own in any case; remove it", unless="false"),),
    ),
    *_same("sequenceBatching", "sequenceTimeoutMSec", "maxSequenceJobQueueSize", "continuousBatching"),
    Setting("sequenceMaxIdleMSec", (_otherwise("a tenth shorter, to end before TorchServe's own time"),), (_SAME,)),
    Setting("maxNumSequence", (_SAME,), (_otherwise("`batchSize` for each worker by default; TorchServe uses 1"),)),
    _both(
        "asyncCommunication",
        _refused("which is not supported; remove it from the archive's YAML, and let the handler return its results "
                 "instead of awaiting them", "`true`", _is_true),
    ),
)  # fmt: skip

# Below torchrun of that YAML.
TORCHRUN = _by_name(
    *(
        Setting(name, (_SAME,), (_ONE_PROCESS,))
        for name in (
            "nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-conf", "monitor-interval", "node-rank",
            "OMP_NUMBER_THREADS",
        )
    )
)  # fmt: skip

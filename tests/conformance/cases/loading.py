"""How archives are loaded: entry points, model files, what they bring along, and what the context says of them."""

from __future__ import annotations

from tests.conformance.case import Case, predictions, v1

ROWS = b'{"instances": [[1, 2, 3, 4], [0.5, -1, 2, 0]]}'


def _seen(what: str, feature: str) -> Case:
    return Case(what.replace("_", "-"), feature, "probe", predictions("probe", x_do=what))


CASES = (
    Case(
        "function",
        "handler: a module-level `handle`, called with None to load",
        "function",
        predictions("function", b"text"),
    ),
    Case("entry", "handler: `module:function`", "entry", predictions("entry")),
    Case("requirements", "`requirementsFile` with `install_py_dep_per_model`", "installed", predictions("installed")),
    _seen("system_properties", "`context.system_properties`"),
    Case(
        "system-properties-batched",
        "`context.system_properties`, with a `batchSize`",
        "batched",
        predictions("batched", x_do="system_properties"),
    ),
    _seen("manifest", "`context.manifest`"),
    _seen("model_name", "`context.model_name`"),
    _seen("model_config", "`context.model_yaml_config`, the archive's `configFile`"),
    _seen("extra_files", "`extraFiles`, in `model_dir` and the working directory"),
    _seen("imported", "modules beside the handler are imported"),
)
STAGES = (
    Case("eager", "BaseHandler itself (`base_handler`) with `modelFile` and weights", "eager", v1("eager", ROWS)),
    Case("scripted", "BaseHandler's stages overridden, TorchScript, `index_to_name.json`", "scripted",
         v1("scripted", ROWS)),
    Case("scripted-explain", "BaseHandler's `get_insights` by `:explain`", "scripted",
         v1("scripted", b'{"instances": [[1, 2, 3, -4]]}', "explain")),
)  # fmt: skip

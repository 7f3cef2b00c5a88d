"""How the failures of handlers read."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch imports what its own dependencies deprecate
    import torch

from mar_runtime.pool.worker_pool import describe_failure
from mar_runtime.worker.spec import HandlerSpec

SPEC = HandlerSpec("m", "", "h.py", "kserve", 1, 1, None, None, True)


def failure(of: str, message: str, missing: str | None = None) -> dict[str, str | None]:
    return {"type": of, "message": message, "where": "h.py:1 in f", "missing_module": missing}


class Network:
    """What a file must not hold that is not trusted."""


@pytest.mark.process
def test_a_file_with_objects_is_told_apart_from_a_wrong_handler(tmp_path: Path) -> None:
    torch.save(Network(), tmp_path / "network.pt")
    with pytest.raises(pickle.UnpicklingError) as raised:
        torch.load(tmp_path / "network.pt")

    described = describe_failure(SPEC, "m.mar", failure("UnpicklingError", str(raised.value)))

    assert described.startswith("Model m (m.mar) could not be loaded: UnpicklingError: Unsupported global: GLOBAL ")
    assert described.endswith(
        "Network was not an allowed global by default (at h.py:1 in f). torch.load loads only tensors from a "
        "file that is not trusted. If you trust this file, set "
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 in the server's environment; else save a state_dict, or TorchScript."
    )


def test_a_failure_without_a_place_names_none() -> None:
    described = describe_failure(
        SPEC, "m.mar", {**failure("SyntaxError", "invalid syntax (handler.py, line 3)"), "where": ""}
    )

    assert described == (
        "Model m (m.mar) could not be loaded: SyntaxError: invalid syntax (handler.py, line 3). "
        "Correct the handler or the files of the model, and serve it again."
    )


@pytest.mark.parametrize(
    ("missing", "installs", "fix"),
    [
        (
            "words",
            False,
            "Add the package with the module words to the model's requirements.txt with "
            "install_py_dep_per_model=true, or install it beside the server (on a cluster: in its image); "
            "add a module of your own to the model's files.",
        ),
        (
            "words",
            True,
            "Add the package with the module words to the model's requirements.txt, or install it beside the server "
            "(on a cluster: in its image); add a module of your own to the model's files.",
        ),
        (None, False, "Correct the handler or the files of the model, and serve it again."),
    ],
)
def test_another_failure_is_the_handlers_or_its_packages(missing: str | None, installs: bool, fix: str) -> None:
    described = describe_failure(replace(SPEC, installs=installs), "m.mar", failure("E", "no", missing))

    assert described == f"Model m (m.mar) could not be loaded: E: no (at h.py:1 in f). {fix}"

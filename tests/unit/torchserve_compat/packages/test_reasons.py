"""What is said of uv's words, also of those that tell one reason of several."""

from __future__ import annotations

import pytest

from torchserve_compat.packages.reasons import reason_of
from torchserve_compat.server.errors import BESIDE

_HEAD = "No solution found when resolving dependencies cause: "
_SHARED = f"is installed {BESIDE}, for all models. Allow that version, or install another there."
_ASK = f"Ask for a version that it has, or install the package {BESIDE}."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Because you require one of: numpy<2.4.6 numpy>2.4.6 and numpy==2.4.6, we can conclude that it is so.",
         f"it requires one of: numpy<2.4.6 numpy>2.4.6, but numpy 2.4.6 {_SHARED}"),
        ("Because torchaudio==2.0.0 depends on torch==2.0.0 and torch==2.15.0, we can conclude that it is so.",
         f"torchaudio==2.0.0 requires torch==2.0.0, but torch 2.15.0 {_SHARED}"),
        ("Because only the following versions of six are available: six<=1.15 six>=1.16 and you require "
         "six>1.15,<1.16, we can conclude that it is so.",
         f"it requires six>1.15,<1.16, but the package index has only six<=1.15 six>=1.16. {_ASK}"),
    ],
)  # fmt: skip
def test_one_reason_is_told_with_what_to_do(said: str, reason: str) -> None:
    assert reason_of(_HEAD + said, ("numpy", "torch")) == reason


@pytest.mark.parametrize(
    "said",
    [
        "Because only two<=2 is available and two==2 depends on torch<1, we can conclude that two==2 cannot be used.",
        "Because two-more was not found in the package registry and one depends on two, we can conclude that it is so.",
        "Because you require six==1.15 and six==1.16, we can conclude that your requirements are unsatisfiable.",
        "Because one depends on two and torch==2.15.0, we can conclude that one cannot be used.",
    ],
)
def test_of_several_reasons_uv_says_more(said: str) -> None:
    assert reason_of(_HEAD + said, ("torch",)) == f"{said} Correct it, or install the packages {BESIDE}."

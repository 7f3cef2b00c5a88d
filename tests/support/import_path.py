"""Where a server of the tests imports from. To import torch is most of its start, so something may stand in for it."""

from __future__ import annotations

import os
from pathlib import Path

_TORCHLESS = Path(__file__).with_name("torchless")
_TORCH_FOR_ALL = "TORCH_FOR_ALL_SERVERS"  # set by `.ci/run` where the stand-in or torch has changed


def import_path(*sources: Path, has_torch: bool) -> str:
    """The PYTHONPATH of a server; something that stands in for torch comes first where no handler uses it."""
    stand_in = () if has_torch or _TORCH_FOR_ALL in os.environ else (_TORCHLESS,)
    return ":".join(map(str, (*stand_in, *sources)))

"""What an exception of a model says of memory and of the GPU."""

from __future__ import annotations

import re
import sys

from data_plane.messages import text_of

ENDED = "it could not use the GPU any more, after an error of CUDA"
_LOST = "The process cannot use the GPU any more after such an error, and is replaced"
_OF_CUDA = re.compile(r"CUDA error.*")
_ASSERTED = "device-side assert"  # of CUDA's kernels, for an index that is out of range
_CURE_OF_INDEX = "A number in the request may be out of the model's range, such as a token outside its vocabulary"
_OF_CPU = "can't allocate memory"  # torch's words, whose exception is not a MemoryError


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. TorchServe takes every error of CUDA for that; we do, where the GPU goes on working."""
    text = text_of(error)
    return isinstance(error, MemoryError) or _OF_CPU in text or ("CUDA" in text and not is_lost())


def is_lost() -> bool:
    """Whether nothing of this process can use the GPU any more, as after an assertion that failed on it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def why_lost(error: BaseException) -> str:
    """Return the line that names CUDA's error, behind that of TorchScript's interpreter if there is one."""
    text = text_of(error).strip()
    found = _OF_CUDA.search(text)
    named = (found[0] if found else text.partition("\n")[0]).rstrip(".")
    return ". ".join([named, *([_CURE_OF_INDEX] if _ASSERTED in named else []), _LOST]) + "."

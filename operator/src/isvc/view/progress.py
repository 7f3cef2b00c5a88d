"""How far a download is, from the last line of a storage-initializer's log. Pure."""

from __future__ import annotations

import re
from typing import Final

from isvc.view.values import DownloadProgress

_SIZE: Final = r"[0-9.]{1,12} [A-Za-z]{1,5}"
_OF_TOTAL: Final = re.compile(rf"([0-9]{{1,3}}) % of ({_SIZE}) \(({_SIZE}/s), ([0-9]{{1,9}}) s left\)")
_ARRIVED: Final = re.compile(rf"({_SIZE}) \(({_SIZE}/s)\)")


def progress_in(line: str) -> DownloadProgress | None:
    """Return the progress that the line tells; None if it tells none."""
    if found := _OF_TOTAL.search(line):
        return DownloadProgress(
            percent=min(int(found[1]), 100), size=found[2], rate=found[3], seconds_left=int(found[4])
        )
    if found := _ARRIVED.search(line):
        return DownloadProgress(size=found[1], rate=found[2])
    return None

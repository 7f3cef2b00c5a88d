"""The tabs of a service: the routes and the links of its pages are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isvc.dashboard.stream import HEARTBEAT


@dataclass(frozen=True)
class Tab:
    """A page about a service: its title, how often it is drawn again while nothing changes, and if it has charts."""

    title: str
    redrawn: float = HEARTBEAT  # seconds without a change, after which a part may look different
    has_charts: bool = False  # the pods' metrics are read more often while it is open


TABS: Mapping[str, Tab] = {
    "": Tab("Overview"),
    "timeline": Tab("Timeline", redrawn=1.0),
    "logs": Tab("Logs"),
    "request": Tab("Request"),
    "charts": Tab("Charts", has_charts=True),
    "yaml": Tab("YAML"),
}
"""By the last part of the path, which is also the name of the template."""

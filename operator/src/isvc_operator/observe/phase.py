"""The phase of a service: its conditions in one word, for counts."""

from __future__ import annotations

from isvc_operator.api.names import READY, STOPPED
from isvc_operator.manifests import Manifest
from isvc_operator.telemetry.snapshot import Phase

_BY_READY = {"True": Phase.READY, "False": Phase.FAILED, "Unknown": Phase.PROGRESSING}


def phase_of(service: Manifest) -> Phase:
    """Return the phase that the service's stored status reports."""
    if service["metadata"].get("deletionTimestamp"):
        return Phase.TERMINATING
    conditions = {item["type"]: item["status"] for item in (service.get("status") or {}).get("conditions") or ()}
    if conditions.get(STOPPED) == "True":
        return Phase.STOPPED
    return _BY_READY.get(conditions.get(READY, ""), Phase.PENDING)

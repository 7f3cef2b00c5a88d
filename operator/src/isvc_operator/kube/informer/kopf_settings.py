"""How kopf is set up: it watches our kinds, and keeps nothing of its own on objects."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any, Final

import kopf

from isvc_operator.api.kinds import KINDS, ResourceKind
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.errors import OperatorError
from isvc_operator.limits import WATCH_IDLE_SECONDS
from isvc_operator.manifests import Manifest

# kopf removes its finalizer where nothing needs it, and all operators on kopf have the same one by default.
_NO_FINALIZER: Final = "isvc-operator.io/none"
# asyncio's words, of the generators of kopf's watches.
_CLOSING: Final = re.compile(r"an error occurred during closing of .* (infinite_watch|streaming_block) at ")
_WORKER_SECONDS: Final = 1.0  # that kopf keeps a task for an object after its last event


class _Nothing(kopf.DiffBaseStorage, kopf.ProgressStorage):
    """Remembers no object for a comparison, which takes kopf twice as long as all else, and no handler to call again:
    the queue does that.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def selector_of(kind: ResourceKind) -> tuple[str, str, str]:
    """Return what names a kind to kopf."""
    return kind.group, kind.version, kind.plural


def use_settings(
    settings: kopf.OperatorSettings, kinds: Iterable[ResourceKind] = KINDS, *, notices_crds: bool = True
) -> None:
    """Set kopf up to watch these kinds. ``notices_crds``: whether CRDs and namespaces may be watched."""
    settings.persistence.diffbase_storage = settings.persistence.progress_storage = _Nothing()
    settings.persistence.finalizer = _NO_FINALIZER
    settings.posting.enabled = False
    settings.peering.standalone = True  # the Lease is enough, and stops writes, too
    settings.scanning.disabled = not notices_crds
    settings.queueing.idle_timeout = _WORKER_SECONDS
    settings.watching.inactivity_timeout = WATCH_IDLE_SECONDS
    for kind in kinds:
        if kind.selected_by_label:
            settings.watching.label_selectors[selector_of(kind)] = LABEL_SERVICE
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # a line for each event takes a tenth of its time


def is_news(record: logging.LogRecord) -> bool:
    """Whether a line says what a person can use, and nobody else says.

    kopf logs, with its traceback, an error that we raise to end it. When it ends in the middle of an event, it leaves
    its generators, which asyncio closes side by side, while each of them closes another one.
    """
    if record.name == "asyncio" and _CLOSING.match(record.getMessage()):
        return False
    return not (record.exc_info and isinstance(record.exc_info[1], OperatorError))


def discovered(path: str) -> Manifest:
    """Return the response to one of the requests by which kopf discovers the kinds of an API server.

    It is told that all of our kinds are installed. A missing CRD shows when a kind is listed.
    """
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        found: dict[str, Manifest] = {}
        for group, version in dict.fromkeys((kind.group, kind.version) for kind in KINDS if kind.group):
            known = found.setdefault(group, {"name": group, "versions": [], "preferredVersion": {"version": version}})
            known["versions"].append({"version": version})
        return {"groups": [*found.values()]}
    return {"resources": [_resource(kind) for kind in KINDS if kind.api_path == path]}


def _resource(kind: ResourceKind) -> Manifest:
    return {
        "name": kind.plural,
        "singularName": kind.name.lower(),
        "kind": kind.name,
        "namespaced": kind.namespaced,
        "verbs": ["list", "watch", "patch"],
    }

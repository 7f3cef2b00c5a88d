"""Why the pods of a Deployment are replaced: what its template is rendered from, as it records that, has changed. Pure.

``before`` and ``after`` are a child as the API server has stored it before and after a change of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.names import (
    ANNOTATION_OWN_INPUTS,
    ANNOTATION_RENDERED,
    ANNOTATION_SHARED_INPUTS,
    ANNOTATION_VERSION,
)
from isvc_operator.limits import NAMED
from isvc_operator.manifests import Manifest, annotations_of, name_of
from isvc_operator.plan.diff import differences

NEW_PODS = "gets new pods"  # in the message of each Event about them
_NUMBER = re.compile("[0-9]{1,9}")


def new_pods(before: Manifest, after: Manifest) -> str:
    """Return which Deployment gets new pods, with the revision that its controller counts next; empty if none does."""
    if before["kind"] != "Deployment" or before["spec"]["template"] == after["spec"]["template"]:
        return ""
    counted = _NUMBER.fullmatch(annotations_of(before).get("deployment.kubernetes.io/revision", ""))
    revision = f" (revision {int(counted[0]) + 1})" if counted else ""
    return f"Deployment {name_of(after)} {NEW_PODS}{revision}"


def what_changed(before: Manifest, after: Manifest) -> str:
    """Return what a Deployment gets new pods for, and the fields of its template that differ."""
    old, new = before["spec"]["template"], after["spec"]["template"]
    fields = dict.fromkeys(map(str, (*differences(old, new), *differences(new, old))))
    # The value of a secret is in no digest.
    causes = " and ".join(_causes(before, after)) or "an object that the service refers to"
    return f"{causes}: {', '.join(islice(fields, NAMED))}"


def _causes(before: Manifest, after: Manifest) -> Iterator[str]:
    old, new = annotations_of(before), annotations_of(after)
    if ANNOTATION_RENDERED not in old:
        yield "the controller, which was KServe's"
        return
    if ANNOTATION_OWN_INPUTS in old and old[ANNOTATION_OWN_INPUTS] != new.get(ANNOTATION_OWN_INPUTS):
        yield f"the {KIND}"
    if ANNOTATION_SHARED_INPUTS in old:
        known, wanted = (set(item.get(ANNOTATION_SHARED_INPUTS, "").split(",")) for item in (old, new))
        yield from sorted({item.partition("=")[0] for item in known ^ wanted})
    if old.get(ANNOTATION_VERSION) != new.get(ANNOTATION_VERSION):
        yield f"the operator's version ({old.get(ANNOTATION_VERSION, 'older')} to {new.get(ANNOTATION_VERSION)})"

"""Permissions: those that roles grant, and those that an audit log shows in use.

`python -m tests.support.permissions AUDIT_LOG…` compares the shipped roles with what the operator did on a cluster,
such as the bare one, which writes .cluster/log/audit.jsonl. It ends with 1 if a permission is missing or unused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.yaml_files import documents

RBAC = Path(__file__).parents[2] / "manifests" / "base" / "rbac.yaml"
AGGREGATED = RBAC.with_name("aggregated-roles.yaml")
"""What Kubernetes adds to its own roles view, edit and admin."""
ACCOUNT = ":isvc-operator"  # ends the user name of the operator's service account, in any namespace

Permission: TypeAlias = tuple[str, str, str]  # API group, resource with its subresource, verb
AuditEvent: TypeAlias = Mapping[str, Any]

# No request of its own: blockOwnerDeletion in an owner reference is checked against it.
NEVER_LOGGED: frozenset[Permission] = frozenset({("serving.kserve.io", "inferenceservices/finalizers", "update")})
# Kubernetes grants it to every account (system:basic-user).
EVERYONES: frozenset[Permission] = frozenset({("authorization.k8s.io", "selfsubjectaccessreviews", "create")})


def granted_by(*roles: Mapping[str, Any]) -> set[Permission]:
    """What the rules of these Roles and ClusterRoles allow, whichever objects they name."""
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def of_account(account: str, events: Iterable[AuditEvent]) -> list[AuditEvent]:
    """The requests of the user whose name ends like this."""
    return [event for event in events if event["user"]["username"].endswith(account)]


def of_agents(agents: Sequence[str], events: Iterable[AuditEvent]) -> list[AuditEvent]:
    """The requests of clients whose user agent starts like one of these, as whichever user."""
    return [event for event in events if event.get("userAgent", "").startswith(tuple(agents))]


def needed_for(events: Iterable[AuditEvent]) -> set[Permission]:
    """What these requests need; those of paths that are not resources need nothing."""
    return {
        permission
        for event in events
        if "resource" in event.get("objectRef", {})
        for permission in _needed_for_one(event)
    }


def refused(events: Iterable[AuditEvent]) -> list[str]:
    """Those requests that the API server did not allow, each as its verb and URI, and once.

    In a namespace that is being deleted it allows nobody to create anything.
    """
    found = (
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if event.get("responseStatus", {}).get("code") in (401, 403) and not _is_terminating(event)
    )
    return list(dict.fromkeys(found))


def _is_terminating(event: AuditEvent) -> bool:
    causes = event["responseStatus"].get("details", {}).get("causes", ())
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def shipped_roles(file: Path = RBAC) -> list[dict[str, Any]]:
    return [item for item in documents(file) if item["kind"] == "ClusterRole"]


def _needed_for_one(event: AuditEvent) -> set[Permission]:
    target = event["objectRef"]
    subresource = f"/{target['subresource']}" if target.get("subresource") else ""
    where = target.get("apiGroup", ""), target["resource"] + subresource
    # Server-side apply of a missing object creates it, which is a permission of its own.
    created = event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == 201
    return {(*where, verb) for verb in (event["verb"], *(("create",) if created else ()))}


def main(argv: Sequence[str]) -> int:
    lines = (line for name in argv for line in Path(name).read_text().splitlines())
    events = of_account(ACCOUNT, map(json.loads, lines))
    granted, used = granted_by(*shipped_roles()) - NEVER_LOGGED, needed_for(events) - EVERYONES
    for title, found in (
        ("missing", map(" ".join, used - granted)),
        ("unused", map(" ".join, granted - used)),
        ("refused", refused(events)),
    ):
        sys.stdout.writelines(f"{title}: {line}\n" for line in sorted(found))
    return 0 if used == granted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

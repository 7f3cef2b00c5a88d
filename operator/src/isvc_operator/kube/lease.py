"""What a Lease says about who may write, and what a replica writes into it. Pure.

No clock of another machine is compared: a lease is free when it has not changed for ``LEASE_SECONDS`` by one's
own clock. Its holder sends no more writes ``WRITE_SECONDS`` after it began its last renewal, and the API server ends
each write ``LATEST_WRITE_SECONDS`` after it received it. So the last write of a leader is over before another leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.manifests import Manifest

LEASE_SECONDS: Final = 11.0
WRITE_SECONDS: Final = 6.0
LATEST_WRITE_SECONDS: Final = 4.0  # one second less than what is left of the lease, for the way to the API server
RETRY_SECONDS: Final = 1.0  # between two renewals, and between two looks of a replica that stands by


@dataclass(frozen=True)
class ObservedLease:
    """A Lease, and since when, by one's own clock, it is known to be as it is."""

    lease: Manifest
    since: float


def seen(lease: Manifest, before: ObservedLease, now: float) -> ObservedLease:
    """Return the Lease as it was read ``now``; ``before`` is what was seen when it was read before."""
    return before if _version(before.lease) == _version(lease) else ObservedLease(lease, now)


def is_free(found: ObservedLease, identity: str, now: float) -> bool:
    """Whether ``identity`` may take the Lease: it was released, is its own, or was not renewed for too long."""
    return holder(found.lease) in ("", identity) or now >= found.since + LEASE_SECONDS


def holder(lease: Manifest) -> str:
    """Return the identity of the holder; empty if the Lease was released."""
    return str(_spec(lease).get("holderIdentity") or "")


def new_lease(namespace: str, name: str) -> dict[str, Any]:
    """Return a Lease that nobody holds."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }


def claimed(lease: Manifest, identity: str, now: str) -> dict[str, Any]:
    """Return the Lease as taken or renewed by ``identity``; ``now`` is an RFC 3339 time in whole seconds."""
    before, time = _spec(lease), now.replace("Z", ".000000Z")
    taken = holder(lease) != identity
    spec = {
        **before,
        "holderIdentity": identity,
        "leaseDurationSeconds": int(LEASE_SECONDS),
        "acquireTime": time if taken else before.get("acquireTime", time),
        "renewTime": time,
        "leaseTransitions": (before.get("leaseTransitions") or 0) + (1 if taken else 0),
    }
    return {**lease, "spec": spec}


def released(lease: Manifest) -> dict[str, Any]:
    """Return the Lease without a holder."""
    return {**lease, "spec": {**_spec(lease), "holderIdentity": ""}}


def _spec(lease: Manifest) -> Manifest:
    spec: Manifest = lease.get("spec") or {}
    return spec


def _version(lease: Manifest) -> Any:
    metadata = lease["metadata"]
    return metadata.get("uid"), metadata.get("resourceVersion")

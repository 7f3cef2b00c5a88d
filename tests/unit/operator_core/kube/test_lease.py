"""The rules of the Lease: who may take it, and what is written into it."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.kube.leader import (
    LATEST_WRITE_SECONDS,
    LEASE_SECONDS,
    RETRY_SECONDS,
    WRITE_SECONDS,
    ObservedLease,
    claimed,
    is_free,
    new_lease,
    released,
    seen,
)

NOW = "2026-01-01T00:00:09Z"


def a_lease(holder: str, version: str = "1", **spec: Any) -> dict[str, Any]:
    lease = new_lease("isvc-system", "isvc-operator")
    return lease | {
        "metadata": {**lease["metadata"], "resourceVersion": version},
        "spec": {"holderIdentity": holder} | spec,
    }


def test_the_last_write_is_over_before_another_one_leads_and_that_one_leads_within_15_seconds() -> None:
    assert WRITE_SECONDS + LATEST_WRITE_SECONDS < LEASE_SECONDS
    assert LEASE_SECONDS + 2 * RETRY_SECONDS < 15


@pytest.mark.parametrize(
    ("holder", "after", "free"),
    [
        ("other", 0.0, False),
        ("other", LEASE_SECONDS - 0.1, False),
        ("other", LEASE_SECONDS, True),
        ("", 0.0, True),
        ("own", 0.0, True),
    ],
)
def test_a_lease_is_free_when_it_is_released_or_ones_own_or_was_not_renewed(
    holder: str, after: float, free: bool
) -> None:
    assert is_free(ObservedLease(a_lease(holder), since=100.0), "own", 100.0 + after) is free


def test_a_renewal_counts_from_when_it_is_seen_whatever_time_it_names() -> None:
    first = seen(
        a_lease("other", "1", renewTime="2099-01-01T00:00:00.000000Z"), ObservedLease(new_lease("", ""), 0.0), 10.0
    )
    same = seen(a_lease("other", "1"), first, 15.0)
    renewed = seen(a_lease("other", "2"), same, 20.0)

    assert (first.since, same.since, renewed.since) == (10.0, 10.0, 20.0)


def test_taking_a_lease_counts_a_transition_and_renewing_it_does_not() -> None:
    taken = claimed(a_lease("other", acquireTime="before", leaseTransitions=4), "own", NOW)

    assert taken == a_lease(
        "own",
        leaseDurationSeconds=11,
        acquireTime="2026-01-01T00:00:09.000000Z",
        renewTime="2026-01-01T00:00:09.000000Z",
        leaseTransitions=5,
    )
    assert claimed(taken, "own", "2026-01-01T00:00:10Z") == a_lease(
        "own", **{**taken["spec"], "renewTime": "2026-01-01T00:00:10.000000Z"}
    )


def test_a_released_lease_has_no_holder() -> None:
    assert released(a_lease("own", leaseTransitions=5)) == a_lease("", leaseTransitions=5)

"""What `isvc migrate back` deletes: each kind of child that KServe's controller would leave behind."""

from __future__ import annotations

from isvc.migrate.names import OWN_CHILDREN
from isvc_operator.api.kinds import KINDS, Role

MADE_BY_KSERVE = {"Deployment", "Service", "Ingress", "HTTPRoute", "HorizontalPodAutoscaler", "ScaledObject"}


def test_every_kind_that_only_this_operator_makes_is_deleted() -> None:
    children = {kind.name: (kind.api_version, kind.plural) for kind in KINDS if kind.role is Role.CHILD}

    assert {children[name] for name in children.keys() - MADE_BY_KSERVE} == {*OWN_CHILDREN}

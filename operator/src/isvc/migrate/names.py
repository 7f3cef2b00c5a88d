"""The names of what KServe and this operator install, and of what ``isvc migrate`` leaves on objects meanwhile."""

from __future__ import annotations

from typing import Final

KSERVE_NAMESPACE: Final = "kserve"
KSERVE_MANAGER: Final = "kserve-controller-manager"
KSERVE_LEASE: Final = "kserve-controller-manager-leader-lock"
KSERVE_WEBHOOK_SERVICE: Final = "kserve-webhook-server-service"

OPERATOR_NAMESPACE: Final = "isvc-system"
OPERATOR: Final = "isvc-operator"
OPERATOR_CONTAINER: Final = "operator"

# The field manager, the holder of the lease, and the name of the ConfigMap with what `back` restores.
MIGRATION: Final = "isvc-migrate"
# On the lease: the containers of the manager whose controllers may still have been running when it was taken.
ANNOTATION_LEADERS: Final = "isvc-operator.io/leaders"
HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
SLICE_OF: Final = "kubernetes.io/service-name"

"""What to do about a failure whose message does not say it. docs/troubleshooting.md has more of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Against reasons of others: of gateways and of kubelets, which have more than are known here.
SEE_MESSAGE: Final = "correct what the message names"

# By the reason of the condition.
_BY_REASON: Final[Mapping[str, str]] = {
    "AnnotationNotAllowed": "ask the administrator to allow the annotation, or remove it",
    "CanaryNotSupported": "remove the fields that request a canary; the change is rolled out then",
    "CertificateExpired": "renew the certificate",
    "CertificateExpires": "renew the certificate",
    "ChangedByOthers": "let the other client leave these fields alone, or set them in the service",
    "DeploymentPaused": "resume the Deployment with kubectl rollout resume",
    "Evicted": "raise resources.requests of what the message names, or free it on the node",
    "FieldsIgnored": "correct or remove these fields",
    "FieldsNotKept": "find the webhook that changes them, and let it leave the service's objects alone",
    "GatewayApiNotInstalled": "install the Gateway API and a gateway controller, or set enableGatewayApi to false",
    "HostTaken": "rename the service, or change the templates of hosts",
    "HostsMissing": "add these names to the certificate",
    "IngressNotCreated": "nothing yet: the operator creates it; see its log if this stays",
    "InvalidCertificate": "create or correct the secret; the operator checks it again by itself",
    "InvalidCredentials": "create or correct the secret; the operator checks it again by itself",
    "InvalidPredictorSpec": SEE_MESSAGE,
    "MinimumReplicasUnavailable": "wait for the new pods; isvc status -w shows how far they are",
    "NoSupportingRuntime": "correct modelFormat.name or protocolVersion, or install a runtime that serves them",
    "NotProcessed": "wait a moment; if it stays, see whether the operator runs, and its log",
    "OperatorUpgraded": "nothing has to be done; kubectl rollout restart gives the pods the newer template now",
    "ParentStatusNotAvailable": "check that the Gateway of kserveIngressGateway exists and that its controller runs",
    "PodFailed": "see the Events of the pod and of its node",
    "PodsRefused": "raise the quota, or let the pods satisfy the policy that the message names",
    "ProgressDeadlineExceeded": "see what the last log lines wait for, and the Events of the pods",
    "ReconcileFailed": "correct what the message names; the operator retries by itself",
    "RolloutQueued": "nothing has to be done: the pods are replaced when it is the service's turn",
    "RouteNotCreated": "nothing yet: the operator creates it; see its log if this stays",
    "RuntimeDisabled": "enable the runtime, or name another one",
    "RuntimeNotRecognized": "correct the runtime's name, leave it out, or create that runtime",
    "ScaledToZero": "let its autoscaler add pods, or kubectl scale deployment",
    "ServerFailed": "correct what the message or the last log lines name",
    "ServiceAccountNotFound": "create this ServiceAccount in the service's namespace, or correct serviceAccountName",
    "StorageInitializerFailed": "correct storageUri, its credentials, or the files there",
    "StorageWarning": "add the missing archive, or remove it from load_models",
    "Stopped": "remove the annotation serving.kserve.io/stop",
}

# By the exit code of the storage-initializer.
_BY_EXIT_CODE: Final[Mapping[int, str]] = {
    1: "see the traceback in its log; a bug of the storage-initializer: please report it",
    2: "correct the settings of the storage-initializer that the message names",
    3: "correct the scheme or the form of storageUri",
    4: "mount the claim, or correct its name in storageUri",
    5: "correct the path in storageUri",
    6: "copy the model there",
    7: "grant the right to read it, or use other credentials",
    8: "replace the link by a copy of the file",
    9: "let the source and the destination be folders apart from each other",
    10: "use a node with more disk, or a smaller model",
    11: "make the model's volume writable for user 1000",
    12: "nothing, if the upload is complete by now: it is copied again",
    13: "complete the folder as the message says",
    14: "copy the archive to the source again",
    15: "correct the endpoint; look for a NetworkPolicy or a firewall between it and the pod",
    16: "configure the authority of the certificate, or correct the endpoint",
    17: "see the log of that server",
    18: "set the region of the bucket: s3-region, or region in the secret storage-config",
    143: "nothing: it starts again with the pod",
}


def fix_for(reason: str, exit_code: int | None = None) -> str:
    """Return what to do about a failure with this reason; empty if there is no advice for it."""
    by_code = _BY_EXIT_CODE.get(exit_code or 0) if reason == "StorageInitializerFailed" else None
    return by_code or _BY_REASON.get(reason, "")


def fix_for_module(module: str) -> str:
    """Return what to do about a module that Python has not found; empty if none is missing."""
    if not module:
        return ""
    return (
        f"install the package with the module {module} (on a cluster: in the image, for isvc run: beside isvc), and "
        "add it to the requirements; or correct the module's name"
    )

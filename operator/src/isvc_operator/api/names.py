"""Every label, annotation, condition, reason and child name that users or other tools can see.

KServe's names are used unchanged, because its SDK, dashboards and scripts depend on them; our own names have the
domain ``isvc-operator.io``.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "serving.kserve.io"
FIELD_MANAGER: Final = "isvc-operator"
CONFIG_MAP: Final = "inferenceservice-config"
LEASE: Final = "isvc-operator"
CREDENTIALS_ROLE: Final = "isvc-operator-credentials"

# --- labels -----------------------------------------------------------------------------------------
LABEL_SERVICE: Final = "serving.kserve.io/inferenceservice"
LABEL_COMPONENT: Final = "component"
LABEL_APP: Final = "app"
LABEL_VISIBILITY: Final = "networking.kserve.io/visibility"
LABEL_SERVICE_ENVELOPE: Final = "serviceEnvelope"
LABEL_MODEL_CLASS: Final = "modelClass"

# --- finalizers -------------------------------------------------------------------------------------
# KServe's controller adds it to every service; we add none.
FINALIZER_KSERVE: Final = "inferenceservice.finalizers"

# --- annotations ------------------------------------------------------------------------------------
ANNOTATION_SERVER_TYPE: Final = "serving.kserve.io/server-type"
# On a runtime, or on a component with the user's own container: the variables of the settings that its server reads,
# such as `MAX_BATCH_SIZE,REQUEST_TIMEOUT`.
ANNOTATION_SETTINGS: Final = "isvc-operator.io/settings"
# On a runtime: whether it is selected only where no runtime without this annotation fits.
ANNOTATION_YIELDS: Final = "isvc-operator.io/yields"
# On a runtime: whether its image exists with one tag only, for CPUs and GPUs.
ANNOTATION_FIXED_IMAGE: Final = "isvc-operator.io/fixed-image"
# On a service: the name of its model's format, which KServe's webhook adds.
ANNOTATION_MODEL_FORMAT: Final = "modelFormat"
# The fraction of a component's requests that its payload logger gets.
ANNOTATION_LOGGER_FRACTION: Final = "isvc-operator.io/logger-fraction"
# Who may connect to the pods of a service: `none` for no NetworkPolicy, `namespace` or `service`.
ANNOTATION_NETWORK_POLICY: Final = "isvc-operator.io/network-policy"
# On a service: the Secret with the certificate that its pods serve TLS with; "" for none.
ANNOTATION_TLS_SECRET: Final = "isvc-operator.io/tls-secret"  # noqa: S105 - the name of an annotation
# The name of the runtime; the older framework keys of the spec have no field for it.
ANNOTATION_RUNTIME: Final = "isvc-operator.io/runtime"
# On a service, in place of the operator's ``upgradePolicy``.
ANNOTATION_UPGRADE_POLICY: Final = "isvc-operator.io/upgrade-policy"
# Those of a service that change nothing in its pods: they are not copied to them, and a change does not replace them.
NOT_OF_PODS: Final = (ANNOTATION_NETWORK_POLICY, ANNOTATION_UPGRADE_POLICY)
ANNOTATION_STOP: Final = "serving.kserve.io/stop"
ANNOTATION_AUTOSCALER: Final = "serving.kserve.io/autoscalerClass"
ANNOTATION_READONLY: Final = "storage.kserve.io/readonly"
# How the server reads a claim: `copy` (like any other source) or `direct` (mounted instead of the copy).
ANNOTATION_PVC_MODE: Final = "storage.isvc-operator.io/pvc-mode"
ANNOTATION_SHA256: Final = "storage.isvc-operator.io/sha256"
ANNOTATION_ALLOW_PATTERNS: Final = "storage.isvc-operator.io/allow-patterns"
ANNOTATION_IGNORE_PATTERNS: Final = "storage.isvc-operator.io/ignore-patterns"
ANNOTATION_STORAGE_RESOURCES: Final = "storage.isvc-operator.io/resources"
ANNOTATION_IAM_ROLE: Final = "eks.amazonaws.com/role-arn"
# On a Secret or a ServiceAccount: s3-endpoint, s3-region, …
ANNOTATION_S3_PREFIX: Final = "serving.kserve.io/s3-"
# Digest of the rendered child: nothing is applied if it has not changed.
ANNOTATION_RENDERED: Final = "isvc-operator.io/rendered"
# Digest of a Deployment's rendered pod template: whether a change would replace the pods.
ANNOTATION_TEMPLATE: Final = "isvc-operator.io/template"
# The version of the operator that renders this template.
ANNOTATION_VERSION: Final = "isvc-operator.io/version"
# Digest of what the pods are rendered from: the service, its runtime, the configuration.
ANNOTATION_INPUTS: Final = "isvc-operator.io/inputs"
# Digest of the service's own part of these, which it shares with no other.
ANNOTATION_OWN_INPUTS: Final = "isvc-operator.io/own-inputs"
# Digests of the others, by their names: `ClusterServingRuntime/NAME=DIGEST,ConfigMap/NAME=DIGEST`.
ANNOTATION_SHARED_INPUTS: Final = "isvc-operator.io/shared-inputs"
# `VERSION/DIGEST` of the template that this version of the operator renders, if the pods keep the previous one.
ANNOTATION_WAITING: Final = "isvc-operator.io/waiting-template"
# On a Deployment: `isvc migrate` replaces its pods, and wants all new ones before the first old one ends.
ANNOTATION_HANDOVER: Final = "isvc-operator.io/handover"

# --- containers and volumes -------------------------------------------------------------------------
CONTAINER_SERVER: Final = "kserve-container"
CONTAINER_TRANSFORMER: Final = "transformer-container"
CONTAINER_MODELCAR: Final = "modelcar"
CONTAINER_MODELCAR_CHECK: Final = "modelcar-init"
CONTAINER_INITIALIZER: Final = "storage-initializer"
VOLUME_MODELS: Final = "kserve-provision-location"
MODELS_MOUNT: Final = "/mnt/models"
PVC_MOUNT_ROOT: Final = "/mnt/pvc"
CACHE_MOUNT: Final = "/mnt/storage-cache"
VOLUME_CACHE: Final = "storage-cache"
PACKAGES_MOUNT: Final = "/mnt/package-cache"
# The copy of the administrator's certificates in each namespace.
CA_BUNDLE_CONFIG_MAP: Final = "global-ca-bundle"

# --- components -------------------------------------------------------------------------------------
PREDICTOR: Final = "predictor"
TRANSFORMER: Final = "transformer"
EXPLAINER: Final = "explainer"
# The suffix of the HTTPRoute for a service's path on a host that all services share.
PATH: Final = "path"

# --- condition types --------------------------------------------------------------------------------
READY: Final = "Ready"
PREDICTOR_READY: Final = "PredictorReady"
TRANSFORMER_READY: Final = "TransformerReady"
EXPLAINER_READY: Final = "ExplainerReady"
INGRESS_READY: Final = "IngressReady"
PROGRESSING: Final = "Progressing"
STALLED: Final = "Stalled"  # as kstatus reads it
STOPPED: Final = "Stopped"
AUTOSCALER_PROBLEM: Final = "AutoscalerProblem"
STORAGE_INCOMPLETE: Final = "StorageIncomplete"
CHANGE_HELD_BACK: Final = "ChangeHeldBack"
CERTIFICATE_PROBLEM: Final = "CertificateProblem"
PODS_OUTDATED: Final = "PodsOutdated"
SPEC_NOT_APPLIED: Final = "SpecNotApplied"

# --- reasons of conditions and Events ---------------------------------------------------------------
CANARY_NOT_SUPPORTED: Final = "CanaryNotSupported"
CERTIFICATE_EXPIRED: Final = "CertificateExpired"
CERTIFICATE_EXPIRES: Final = "CertificateExpires"
CHANGED_BY_OTHERS: Final = "ChangedByOthers"
DRIFT_CORRECTED: Final = "DriftCorrected"
FIELDS_IGNORED: Final = "FieldsIgnored"
FIELDS_NOT_KEPT: Final = "FieldsNotKept"
HOST_TAKEN: Final = "HostTaken"
HOSTS_MISSING: Final = "HostsMissing"
OPERATOR_UPGRADED: Final = "OperatorUpgraded"
ROLLOUT_QUEUED: Final = "RolloutQueued"
ROLLOUT_UPDATED: Final = "RolloutUpdated"
SETTINGS_IGNORED: Final = "SettingsIgnored"


def route_name(service: str, kind: str = "") -> str:
    """Return the name of the HTTPRoute for the hosts of the service, or of a component (docs/kserve.md).

    It has no ``predictor.name``, unlike the predictor's Deployment.
    """
    return f"{service}-{kind}" if kind else service


def route_names(service: str) -> tuple[str, ...]:
    """Return the names that the service's Ingress, HTTPRoutes and GRPCRoutes can have."""
    return tuple(route_name(service, kind) for kind in ("", PATH, PREDICTOR, TRANSFORMER, EXPLAINER))


def app_label(child: str) -> str:
    """Return the value of the label ``app``, which selects a component's pods."""
    return f"isvc.{child}"

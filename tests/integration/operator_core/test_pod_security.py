"""What `podSecurity` refuses is what Pod Security admission of the API server refuses, field by field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from isvc_operator.render.pod_security import refused_fields
from tests.support.apiserver import ApiServer, Refused

Pod = dict[str, Any]

RESTRICTED = "restricted"
POD: Pod = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "server",
            "image": "i",
            "ports": [{"containerPort": 8080}],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    "initContainers": [
        {
            "name": "init",
            "image": "i",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
NOTHING = object()  # in place of a value: the field is not set
IN_POD, IN_SERVER, IN_INIT = "securityContext", "containers.0.securityContext", "initContainers.0.securityContext"
CONTEXTS = (IN_POD, IN_SERVER, IN_INIT)
SYSCTL = "securityContext.sysctls"
HTTP, TCP = {"httpGet": {"port": 1, "host": "h"}}, {"tcpSocket": {"port": 1, "host": "h"}}
# A case changes one or more fields of the pod: path and value.
CASES: list[dict[str, Any]] = [
    {},
    *({name: value} for name in ("hostNetwork", "hostPID", "hostIPC") for value in (True, False)),
    *({f"{where}.privileged": value} for where in CONTEXTS[1:] for value in (False,)),
    *({f"{where}.allowPrivilegeEscalation": value} for where in CONTEXTS[1:] for value in (True, NOTHING)),
    {f"{IN_SERVER}.privileged": True, f"{IN_SERVER}.allowPrivilegeEscalation": True},
    *(
        {f"{where}.capabilities.drop": drop}
        for where in CONTEXTS[1:]
        for drop in ([], ["NET_RAW"], ["all"], ["ALL", "KILL"])
    ),
    *({f"{where}.capabilities": NOTHING} for where in CONTEXTS[1:]),
    *(
        {f"{where}.capabilities.add": add}
        for where in CONTEXTS[1:]
        for add in (["NET_BIND_SERVICE"], ["CHOWN"], ["SYS_ADMIN", "NET_BIND_SERVICE"], [])
    ),
    *({f"{where}.runAsUser": user} for where in CONTEXTS for user in (0, 1)),
    *({f"{where}.runAsNonRoot": value} for where in CONTEXTS for value in (False, True, NOTHING)),
    {f"{IN_POD}.runAsNonRoot": NOTHING, f"{IN_SERVER}.runAsNonRoot": True, f"{IN_INIT}.runAsNonRoot": True},
    {f"{IN_POD}.runAsNonRoot": False, f"{IN_SERVER}.runAsNonRoot": True, f"{IN_INIT}.runAsNonRoot": True},
    {f"{IN_POD}.runAsNonRoot": NOTHING, f"{IN_SERVER}.runAsNonRoot": True},
    {"hostUsers": False, f"{IN_POD}.runAsNonRoot": NOTHING},
    {"hostUsers": False, f"{IN_POD}.runAsUser": 0},
    *(
        {f"{where}.{profile}": value}
        for where in CONTEXTS
        for profile in ("seccompProfile", "appArmorProfile")
        for value in (
            {"type": "Unconfined"},
            {"type": "RuntimeDefault"},
            {"type": "Localhost", "localhostProfile": "p"},
            NOTHING,
        )
    ),
    {
        f"{IN_POD}.seccompProfile": NOTHING,
        f"{IN_SERVER}.seccompProfile": {"type": "RuntimeDefault"},
        f"{IN_INIT}.seccompProfile": {"type": "RuntimeDefault"},
    },
    *(
        {f"{where}.seLinuxOptions": value}
        for where in CONTEXTS
        for value in (
            *({"type": kind} for kind in ("", "container_t", "container_init_t", "container_kvm_t", "spc_t")),
            {"type": "container_engine_t"},
            {"user": "u"},
            {"role": "r"},
            {"level": "s0"},
        )
    ),
    *({f"{where}.procMount": value} for where in CONTEXTS[1:] for value in ("Default", "Unmasked")),
    {"hostUsers": False, f"{IN_SERVER}.procMount": "Unmasked"},
    *({f"{where}.windowsOptions": {"hostProcess": value}} for where in CONTEXTS for value in (True, False)),
    *(
        {SYSCTL: [{"name": name, "value": "0"}]}
        for name in (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.ip_local_reserved_ports",
            "net.ipv4.ip_unprivileged_port_start",
            "net.ipv4.ping_group_range",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_rmem",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.tcp_wmem",
            "net.ipv4.tcp_mtu_probing",
            "kernel.msgmax",
        )
    ),
    *(
        {"volumes": [{"name": "v", kind: source}]}
        for kind, source in {
            "configMap": {"name": "c"},
            "csi": {"driver": "d"},
            "downwardAPI": {},
            "emptyDir": {},
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                }
            },
            "image": {"reference": "i"},
            "persistentVolumeClaim": {"claimName": "c"},
            "projected": {"sources": []},
            "secret": {"secretName": "s"},
            "hostPath": {"path": "/"},
            "nfs": {"server": "s", "path": "/"},
            "iscsi": {"targetPortal": "1.2.3.4:1", "iqn": "iqn.2001-04.com.example:a", "lun": 0},
            "gcePersistentDisk": {"pdName": "p"},
            "cephfs": {"monitors": ["m"]},
            "rbd": {"monitors": ["m"], "image": "i"},
            "fc": {"targetWWNs": ["w"], "lun": 0},
            "flexVolume": {"driver": "d"},
            "awsElasticBlockStore": {"volumeID": "v"},
            "azureDisk": {"diskName": "d", "diskURI": "u"},
            "azureFile": {"secretName": "s", "shareName": "s"},
            "cinder": {"volumeID": "v"},
            "flocker": {"datasetName": "d"},
            "gitRepo": {"repository": "r"},
            "glusterfs": {"endpoints": "e", "path": "p"},
            "photonPersistentDisk": {"pdID": "p"},
            "portworxVolume": {"volumeID": "v"},
            "quobyte": {"registry": "r:1", "volume": "v"},
            "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"},
            "storageos": {"volumeName": "v", "volumeNamespace": "n"},
            "vsphereVolume": {"volumePath": "p"},
        }.items()
    ),
    {"volumes": [{"name": "v"}]},
    {"volumes": [{"name": "v", "hostPath": None, "emptyDir": {}}]},
    *(
        {f"{where}.0.ports": [{"containerPort": 80, "hostPort": number}]}
        for where in ("containers", "initContainers")
        for number in (0, 80)
    ),
    *(
        {f"{where}.{probe}": action, "initContainers.0.restartPolicy": "Always"}
        for where in ("containers.0", "initContainers.0")
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for action in (HTTP, TCP, {"httpGet": {"port": 1, "host": ""}}, {"tcpSocket": {"port": 1}})
    ),
    *({f"{where}.{name}": None} for where in CONTEXTS for name in ("runAsUser", "seccompProfile", "runAsNonRoot")),
    *({where: None} for where in CONTEXTS),
    *({"containers.0.lifecycle": {when: action}} for when in ("postStart", "preStop") for action in (HTTP, TCP)),
    {"containers.0.livenessProbe": {"httpGet": {"port": 1, "host": "127.0.0.1"}}},
    {"shareProcessNamespace": True},
    {"serviceAccountName": "a"},
]


def changed(case: dict[str, Any]) -> Pod:
    pod = copy.deepcopy(POD)
    for path, value in case.items():
        *parents, name = path.split(".")
        inside: Any = pod
        for parent in parents:
            inside = inside[int(parent)] if parent.isdigit() else inside.setdefault(parent, {})
        if value is NOTHING:
            inside.pop(name, None)
        else:
            inside[name] = value
    return pod


@pytest.fixture(scope="module")
def restricted(apiserver: ApiServer) -> ApiServer:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    apiserver.send("POST", "/api/v1/namespaces", {"metadata": {"name": RESTRICTED, "labels": labels}})
    return apiserver


def admitted(server: ApiServer, pod: Pod, annotations: dict[str, str]) -> bool:
    """Whether the namespace gets the pod; a few, such as one process of a host among others, are not valid anywhere."""
    metadata = {"name": "a", "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
    try:
        server.send("POST", f"/api/v1/namespaces/{RESTRICTED}/pods?dryRun=All&fieldValidation=Strict", body)
    except Refused:
        return False
    return True


def test_the_same_fields_are_refused(restricted: ApiServer) -> None:
    verdicts = {str(case): admitted(restricted, changed(case), {}) for case in CASES}
    ours = {str(case): not list(refused_fields({"metadata": {}, "spec": changed(case)})) for case in CASES}

    assert {case: (verdict, ours[case]) for case, verdict in verdicts.items() if verdict != ours[case]} == {}
    assert sorted(set(ours.values())) == [False, True]


@pytest.mark.parametrize("profile", ["runtime/default", "localhost/p", "unconfined"])
def test_so_are_annotations_of_apparmor(restricted: ApiServer, profile: str) -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/server": profile}
    template: dict[str, Any] = {"metadata": {"annotations": annotations}, "spec": POD}

    assert admitted(restricted, POD, annotations) is (list(refused_fields(template)) == [])

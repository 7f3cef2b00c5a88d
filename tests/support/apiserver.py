"""A real API server for tests: etcd and kube-apiserver on loopback, from the folder $KUBEBUILDER_ASSETS.

No controller runs: a Deployment stays as it was applied until a test patches its status, as the controller would.
Every request is written to an audit log, so that a test can count the calls that a client made.

Objects are applied and read by requests of this process. A start of kubectl costs twenty times as much as the request
that it makes, so it is kept for what users see of kubectl itself.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from tests.support.builders import SHIPPED_RUNTIME
from tests.support.ports import free_port
from tests.support.waiting import eventually
from tests.support.yaml_files import document, documents

CRDS = Path(__file__).parents[2] / "crds"
BINARIES = ("etcd", "kube-apiserver", "kubectl")
START_TIMEOUT = 60.0  # seconds
STOP_TIMEOUT = 10.0  # seconds
REQUEST_TIMEOUT = 60.0  # seconds
JSON = "application/json"

# Of the kinds whose objects are searched by name; of all others it is v1.
_API_VERSIONS = {
    "deployment": "apps/v1",
    "ingress": "networking.k8s.io/v1",
    "httproute": "gateway.networking.k8s.io/v1",
    "grpcroute": "gateway.networking.k8s.io/v1",
    "horizontalpodautoscaler": "autoscaling/v2",
    "scaledobject": "keda.sh/v1alpha1",
    "poddisruptionbudget": "policy/v1",
    "networkpolicy": "networking.k8s.io/v1",
    "inferenceservice": "serving.kserve.io/v1beta1",
    "servingruntime": "serving.kserve.io/v1alpha1",
    "clusterservingruntime": "serving.kserve.io/v1alpha1",
}

# A line before a request is worked on, so that the log is complete when an answer came; another after the answer.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["ResponseStarted", "Panic"],
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
}


class AssetsMissing(Exception):
    """There is no folder with the binaries; the message says how to get one."""


class KubectlFailed(Exception):
    """kubectl ended with an error; the message is what it said."""


class Refused(Exception):
    """The API server refused a request; the message is its own, with a line for each field that is wrong."""

    def __init__(self, answer: dict[str, Any]) -> None:
        causes = answer.get("details", {}).get("causes", [])
        reasons = [f"* {cause.get('field')}: {cause['message']}" for cause in causes]
        super().__init__("\n".join([answer["message"], *reasons]))
        self.reason = answer.get("reason")


def find_assets(folder: str | None) -> Path:
    """The folder of the binaries, once it is known to hold all of them."""
    missing = [name for name in BINARIES if not folder or not (Path(folder) / name).exists()]
    if folder and not missing:
        return Path(folder)
    where = f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(missing)}" if folder else "KUBEBUILDER_ASSETS is not set"
    raise AssetsMissing(f'{where}; run `make test`, or export KUBEBUILDER_ASSETS="$(bash tests/cluster/assets)"')


@dataclass(frozen=True)
class Call:
    """One request that reached the API server."""

    verb: str
    uri: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user_agent: str

    @classmethod
    def of(cls, event: dict[str, Any]) -> Call:
        target = event.get("objectRef", {})
        return cls(
            verb=event["verb"],
            uri=event["requestURI"],
            resource=target.get("resource", ""),
            subresource=target.get("subresource", ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            user_agent=event.get("userAgent", ""),
        )


@dataclass(frozen=True)
class ApiServer:
    """A running API server and the ways to reach it as an administrator."""

    base_url: str
    token: str
    ca_file: Path
    kubeconfig: Path
    assets: Path
    audit_log: Path

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; KubectlFailed says what went wrong."""
        # What kubectl remembers of other servers on the same port must not matter here.
        options = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.kubeconfig.parent / 'kubectl'}"]
        command = [str(self.assets / "kubectl"), *options, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """An object, or a list of objects, as `kubectl get` finds it."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return found

    def send(
        self, method: str, uri: str, body: object = None, *, content: str = JSON, accept: str = JSON, token: str = ""
    ) -> dict[str, Any]:
        """The answer to a request of an administrator, or of who has the token; Refused when it is an error."""
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": content, "Accept": accept}
        # YAML has no surrogate pairs, which JSON in ASCII needs for an emoji.
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        answer = self._connections.request(method, uri, data, headers=headers)
        found: dict[str, Any] = answer.json()
        if answer.status >= 400:
            raise Refused(found)
        return found

    def find(self, namespace: str, kind: str, name: str) -> dict[str, Any] | None:
        """The object, if there is one."""
        try:
            return self.send("GET", f"{_collection(_API_VERSIONS.get(kind.lower(), 'v1'), kind, namespace)}/{name}")
        except Refused as error:
            if error.reason != "NotFound":
                raise
            return None

    def crds(self) -> list[dict[str, Any]]:
        """All of them, by name."""
        found: list[dict[str, Any]] = self.send("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")[
            "items"
        ]
        return found

    def apply(self, namespace: str, manifest: dict[str, Any], *, manager: str = "kubectl") -> dict[str, Any]:
        """The object as it is stored, once it is applied as by `kubectl apply --server-side --force-conflicts`."""
        uri = f"{_collection(manifest['apiVersion'], manifest['kind'], namespace)}/{manifest['metadata']['name']}"
        options = f"fieldManager={manager}&fieldValidation=Strict&force=true"
        return self.send("PATCH", f"{uri}?{options}", manifest, content="application/apply-patch+yaml")

    def create_namespace(self, name: str) -> None:
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def dry_run(self, *manifests: dict[str, Any]) -> list[dict[str, Any]]:
        """The objects as they would be stored; Refused when one of them is."""
        options = "dryRun=All&fieldValidation=Strict"
        return [
            self.send("POST", f"{_collection(item['apiVersion'], item['kind'], 'default')}?{options}", item)
            for item in manifests
        ]

    @functools.cached_property
    def _connections(self) -> urllib3.HTTPSConnectionPool:
        # It keeps them alive: without that, to connect is most of what a request costs.
        host, _, port = self.base_url.removeprefix("https://").partition(":")
        return urllib3.HTTPSConnectionPool(
            host, int(port), ca_certs=str(self.ca_file), timeout=REQUEST_TIMEOUT, retries=0, maxsize=8
        )

    def close(self) -> None:
        self._connections.close()

    def position(self) -> int:
        """A point in the log, to count the calls since then; it may be within a line that is being written."""
        return self.audit_log.stat().st_size if self.audit_log.exists() else 0

    def calls(self, user_agent: str = "", since: int = 0) -> list[Call]:
        """The calls of clients whose user agent starts with `user_agent`, in order."""
        calls = [Call.of(event) for event in self.audit_events(since) if event["stage"] == "RequestReceived"]
        return [call for call in calls if call.user_agent.startswith(user_agent)]

    def audit_events(self, since: int = 0) -> list[dict[str, Any]]:
        """The lines of the log, in order: one before each request, another after its answer.

        The last one may be half written, and `since` within one that was.
        """
        with self.audit_log.open("rb") as log:
            if since:
                log.seek(since - 1)
                log.readline()
            return [json.loads(line) for line in log if line.endswith(b"\n")]


def _collection(api_version: str, kind: str, namespace: str) -> str:
    """The path of the kind's objects."""
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    is_of_the_cluster = kind.lower().startswith(("cluster", "customresource"))
    place = "" if is_of_the_cluster else f"/namespaces/{namespace}"
    return f"{root}{place}/{_plural(kind.lower())}"


def _plural(kind: str) -> str:
    if kind.endswith("policy"):
        return f"{kind.removesuffix('y')}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


@dataclass
class Process:
    """A process that runs from the start on, and can be ended and started again."""

    command: Sequence[str]
    log: Path

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "GOGC": "400"}  # memory is plenty, processors are not: collect garbage seldom
        with self.log.open("ab") as output:
            self.running = subprocess.Popen(
                self.command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.running.send_signal(number)
        try:
            self.running.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()


@dataclass(frozen=True)
class Backend:
    """An API server and the processes that it consists of."""

    server: ApiServer
    etcd: Process
    apiserver: Process

    def wait_until_ready(self) -> None:
        _wait_until_ready(self.server, self.apiserver)


@contextlib.contextmanager
def running(assets: Path, *flags: str) -> Iterator[ApiServer]:
    """An empty API server that is ready; it is gone, with all that it stored, at the end of the block."""
    with restartable(assets, *flags) as backend:
        yield backend.server


@contextlib.contextmanager
def restartable(assets: Path, *flags: str) -> Iterator[Backend]:
    """The same, with the processes in hand."""
    with contextlib.ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="apiserver-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        etcd_url = f"http://127.0.0.1:{free_port()}"
        etcd = Process(_etcd(assets, home, etcd_url), home / "etcd.log")
        stack.callback(etcd.end)
        server = stack.enter_context(contextlib.closing(_configure(assets, home)))
        process = Process([*_kube_apiserver(server, home, etcd_url), *flags], home / "kube-apiserver.log")
        stack.callback(process.end)
        backend = Backend(server, etcd, process)
        backend.wait_until_ready()
        yield backend


def install_crds(server: ApiServer, *files: Path, manager: str = "kubectl") -> None:
    """Installs CRDs, ours unless others are given, and waits until the server serves them."""
    for file in files or CRDS.glob("*.yaml"):
        for crd in documents(file):
            server.apply("", crd, manager=manager)
    wait_until_served(server)


def install_runtime(server: ApiServer) -> None:
    """Installs the shipped runtime that serves the sample."""
    server.apply("", document(SHIPPED_RUNTIME))


def wait_until_served(server: ApiServer) -> None:
    """Wait until the server takes objects of all CRDs, and kubectl finds their kinds.

    Each kind is read once. Of one that nobody has read, the server may still prepare the storage when its CRD is
    deleted; it then fails to delete the objects, and may look at the CRD again only after five minutes.
    """

    def served() -> bool:
        crds, discovered = server.crds(), _discovered(server)
        return all(_is_established(crd) and _resources_of(crd) <= discovered for crd in crds)

    eventually(served, "the CRDs are served", START_TIMEOUT)
    for crd in server.crds():
        for group, version, plural in _resources_of(crd):
            server.send("GET", f"/apis/{group}/{version}/{plural}?limit=1")


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []  # null at first
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def _resources_of(crd: dict[str, Any]) -> set[tuple[str, str, str]]:
    spec = crd["spec"]
    return {(spec["group"], item["name"], spec["names"]["plural"]) for item in spec["versions"] if item["served"]}


def _discovered(server: ApiServer) -> set[tuple[str, str, str]]:
    """The group, version and plural of each resource outside of the core, as kubectl discovers them."""
    groups = server.send("GET", "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    return {
        (group["metadata"]["name"], version["version"], resource["resource"])
        for group in groups["items"]
        for version in group["versions"]
        for resource in version.get("resources", [])
    }


def _etcd(assets: Path, home: Path, url: str) -> list[str]:
    peer_url = f"http://127.0.0.1:{free_port()}"
    return [
        str(assets / "etcd"),
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",  # what it stores need not outlive it
    ]


def _kube_apiserver(server: ApiServer, home: Path, etcd_url: str) -> list[str]:
    # The server makes its own certificate at its first start; the key serves for service accounts too.
    key = home / "pki" / "apiserver.key"
    return [
        str(server.assets / "kube-apiserver"),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={server.base_url.rpartition(':')[2]}",
        f"--cert-dir={home / 'pki'}",
        f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--disable-admission-plugins=ServiceAccount",  # nobody makes the accounts that it waits for
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",  # as clusters have it
        "--shutdown-watch-termination-grace-period=1s",  # else it waits for watches until it is killed
        f"--audit-policy-file={home / 'audit-policy.json'}",
        f"--audit-log-path={server.audit_log}",
    ]


def _configure(assets: Path, home: Path) -> ApiServer:
    """Writes the files that the server reads and those by which clients find it."""
    server = ApiServer(
        base_url=f"https://127.0.0.1:{free_port()}",
        token=secrets.token_hex(16),
        ca_file=home / "pki" / "apiserver.crt",
        kubeconfig=home / "kubeconfig",
        assets=assets,
        audit_log=home / "audit.log",
    )
    (home / "tokens.csv").write_text(f'{server.token},admin,admin,"system:masters"\n')
    (home / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
    cluster = {"server": server.base_url, "certificate-authority": str(server.ca_file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": server.token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
    server.kubeconfig.write_text(json.dumps(config))
    return server


def _wait_until_ready(server: ApiServer, process: Process) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not _is_ready(server):
        if process.running.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"kube-apiserver did not get ready:\n{process.log.read_text()[-3000:]}")
        time.sleep(0.1)


def _is_ready(server: ApiServer) -> bool:
    if not server.ca_file.exists():
        return False
    request = urllib.request.Request(f"{server.base_url}/readyz", headers={"Authorization": f"Bearer {server.token}"})
    try:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False

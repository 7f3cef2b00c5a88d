"""Twenty services of KServe's controller are changed over and back, while each gets two requests a second.

It needs the cluster of `make cluster-up images`, without the operator. KServe's manager is built from its sources
(`tests/cluster/kserve`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.bench.migration import kserve
from tests.bench.migration.services import FACTOR, NAMESPACES, services
from tests.bench.migration.traffic import RATE, Seen, Target, watched
from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.support.cluster import RealCluster
from tests.support.forwarding import address_seen_from, forwarded
from tests.support.namespace import Namespace
from tests.support.object_stores import versitygw
from tests.support.volumes import Volume
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
READY_WITHIN = 300.0  # seconds
PARALLEL = 4  # services at a time
SIZE = 3  # pods that an autoscaler has made of its two
log = logging.getLogger(__name__)


def measure(options: Options) -> Measured:
    """Rows of the suite; with --quick five services, and a pause of twenty seconds."""
    count, pause = (5, 20) if options.quick else (20, 300)
    kubeconfig = Path(options.environment.get("KUBECONFIG") or ROOT / ".cluster" / "kubeconfig")
    cluster = RealCluster(kubeconfig, options.environment.get("KUBECTL", "kubectl"))
    with tempfile.TemporaryDirectory() as folder, _served(cluster, count, Path(folder)) as targets:
        manifests = _manifests(cluster, Path(folder))
        transcript = [_isvc(kubeconfig, "plan", f"--manifests={manifests}")]
        log.info("%s", transcript[0])
        with watched(targets, kubeconfig) as seen:
            begun = time.monotonic()
            time.sleep(10)
            for step, arguments in (("apply", [f"--manifests={manifests}", f"--parallel={PARALLEL}"]), ("back", [])):
                started = time.monotonic()
                transcript.append(_isvc(kubeconfig, step, *arguments))
                log.info("%s: %.0f s\n%s", step, time.monotonic() - started, transcript[-1])
                log.info("%d failed of %d: %s", len(seen.failed), seen.sent.total(), seen.failed[:5])
                if step == "apply":
                    time.sleep(pause)
            time.sleep(10)
            lasted = time.monotonic() - begun
    return _measured(seen, count, lasted, transcript)


def _measured(seen: Seen, count: int, lasted: float, transcript: list[str]) -> Measured:
    sent = seen.sent.total()
    rows = [
        Row("migrate-requests", f"requests to {count} services in {lasted:.0f} s, {RATE}/s each", sent, "", "–", True),
        Row("migrate-failed", "of these failed", len(seen.failed), "", "0", not seen.failed),
        Row("migrate-slowest", "the slowest one", round(seen.slowest, 2), "s", "–", True),
        Row("migrate-pods", "components with fewer ready pods than before", len(seen.fallen), "", "0", not seen.fallen),
        Row("migrate-ready", f"statuses that were not Ready, of {seen.looks * count}", len(seen.not_ready), "", "0",
            not seen.not_ready),
    ]  # fmt: skip
    notes = [*seen.failed[:20], *(f"{key}: {first} → {fewest} pods" for key, (first, fewest) in seen.fallen.items())]
    notes += seen.not_ready[:20]
    tables = "\n\n".join(f"```\n{text.rstrip()}\n```" for text in transcript)
    return Measured(rows, versions(kserve="0.20.0"), notes=notes, tables=tables)


@contextlib.contextmanager
def _served(cluster: RealCluster, count: int, home: Path) -> Iterator[list[Target]]:
    """KServe with its services, all Ready and answering."""
    brought = subprocess.run(["bash", "tests/cluster/kserve"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    kserve.install(cluster, Path(brought.stdout.strip()))
    model = home / "factor" / "model.json"
    model.parent.mkdir()
    model.write_text(json.dumps({"factor": FACTOR}))
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(versitygw.running(home / "s3"))
        s3.create_bucket("models")
        s3.put("models", "factor/model.json", model.read_bytes())
        node = json.loads(cluster.kubectl("get", "nodes", "--output=json"))["items"][0]["status"]["addresses"][0][
            "address"
        ]
        address = address_seen_from(node)
        port = stack.enter_context(forwarded(address, int(s3.url.rpartition(":")[2])))
        targets = []
        for name, number in zip(NAMESPACES, (count // 2, count - count // 2), strict=True):
            cluster.kubectl("create", "namespace", name)
            namespace = Namespace(cluster, name)
            namespace.apply(*_account(f"{address}:{port}"))
            stack.enter_context(Volume(namespace, "models").filled_from(model.parents[0].parent))
            for service in services(name, number):
                namespace.apply(service)
                factor = 2 if "containers" in service["spec"]["predictor"] else FACTOR
                targets.append(Target(name, service["metadata"]["name"], (factor, 2 * factor)))
        _wait(cluster)
        for target in targets:
            if target.name.startswith("scaled"):
                scale = f"deployment/{target.name}-predictor"
                cluster.kubectl("scale", f"--namespace={target.namespace}", scale, f"--replicas={SIZE}")
        _wait(cluster)
        log.info("%d services of KServe are Ready", len(targets))
        yield targets


def _wait(cluster: RealCluster) -> None:
    for name in NAMESPACES:
        cluster.kubectl(
            "wait", "--for=condition=Ready", "inferenceservices", "--all", f"--namespace={name}", "--timeout=170s"
        )
        cluster.kubectl(
            "wait", "--for=condition=Available", "deployments", "--all", f"--namespace={name}", "--timeout=170s"
        )

    def settled() -> bool:
        pods = json.loads(cluster.kubectl("get", "pods", "--all-namespaces", "--output=json",
                                          "--selector=serving.kserve.io/inferenceservice"))["items"]  # fmt: skip
        return all(
            "deletionTimestamp" not in pod["metadata"]
            and any(
                item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions", ())
            )
            for pod in pods
        )

    eventually(settled, "every pod is ready", READY_WITHIN)


def _account(endpoint: str) -> tuple[dict[str, object], dict[str, object]]:
    annotations = {
        "serving.kserve.io/s3-endpoint": endpoint,
        "serving.kserve.io/s3-usehttps": "0",
        "serving.kserve.io/s3-region": versitygw.REGION,
    }
    keys = {"AWS_ACCESS_KEY_ID": versitygw.ROOT.access, "AWS_SECRET_ACCESS_KEY": versitygw.ROOT.secret}
    secret: dict[str, object] = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3", "annotations": annotations},
        "stringData": keys,
    }  # fmt: skip
    account: dict[str, object] = {
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reads-s3"}, "secrets": [{"name": "s3"}],
    }  # fmt: skip
    return secret, account


def _manifests(cluster: RealCluster, folder: Path) -> Path:
    """The operator and its runtimes, for this cluster; the initializer is small, because many services share a node."""
    rendered = subprocess.run(
        ["bash", "tests/cluster/render", "local"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    documents = [item for item in yaml.safe_load_all(rendered) if item]
    for item in documents:
        if item["kind"] == "ConfigMap":
            initializer = json.loads(item["data"]["storageInitializer"])
            item["data"]["storageInitializer"] = json.dumps({**initializer, **kserve.SMALL})
    path = folder / "operator.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


def _isvc(kubeconfig: Path, *arguments: str) -> str:
    """Run `isvc migrate`, and return what it prints."""
    command = [sys.executable, "-c", "import sys; from isvc.commands import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "migrate", *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    expected = (0, 3) if arguments[0] == "plan" else (0,)
    assert done.returncode in expected, f"isvc migrate {arguments[0]}: exit code {done.returncode}\n{done.stdout}"
    shown = " ".join(re.sub(r"=/\S*/", "=", argument) for argument in arguments)
    return f"$ isvc migrate {shown}\n{done.stdout}"

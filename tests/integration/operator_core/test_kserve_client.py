"""KServe's own Python client, as its users' scripts have it, against our CRDs and status."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.support.apiserver import ApiServer
from tests.support.namespace import Namespace

# In a process of its own: importing kserve takes seconds and warns about much that is not ours. Its ``create`` cannot
# be used: kserve 0.21 hands a typed object to a Kubernetes client that takes dictionaries only.
SCRIPT = """
    import sys
    from kserve import KServeClient

    kubeconfig, namespace = sys.argv[1:]
    client = KServeClient(config_file=kubeconfig)
    print(client.is_isvc_ready("torchserve", namespace), flush=True)
    sys.stdin.readline()
    client.wait_isvc_ready("torchserve", namespace, timeout_seconds=30, polling_interval=1, expected_generation=1)
    print(client.get("torchserve", namespace)["status"]["url"], flush=True)
    client.delete("torchserve", namespace)
"""


def test_kserves_client_sees_when_a_service_is_ready(
    running_operator: None, apiserver: ApiServer, namespace: Namespace
) -> None:
    namespace.apply_story()
    namespace.wait_for_condition("Ready", "Unknown")
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT), str(apiserver.kubeconfig), namespace.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stdout.readline() == "False\n"
        namespace.play_finished_rollout()
        namespace.wait_for_condition("Ready", "True")
        client.stdin.write("go on\n")
        client.stdin.flush()
        assert client.stdout.readline() == f"http://torchserve.{namespace.name}.example.com\n"
    assert client.returncode == 0
    assert namespace.find("inferenceservice", "torchserve") is None

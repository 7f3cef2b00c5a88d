"""`isvc dashboard` on a real API server: with the caller's rights, and kept up to date."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from isvc.commands import main
from tests.support.apiserver import ApiServer
from tests.support.builders import a_deployment, a_pod, an_initializer, running
from tests.support.limited_users import PODS, a_reader
from tests.support.related_objects import a_problem_of, a_related
from tests.support.stored_objects import store

pytestmark = pytest.mark.process
_ISVC = (sys.executable, "-c", "from isvc.commands import main; raise SystemExit(main())")


@contextmanager
def served(kubeconfig: Path, namespace: str) -> Iterator[URL]:
    """Run the command, and yield the address that it prints; it ends by Ctrl-C."""
    command = [*_ISVC, "dashboard", f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield URL(process.stdout.readline().strip())
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
        finally:
            process.kill()


async def test_a_service_is_shown_and_followed(apiserver: ApiServer, namespace: str) -> None:
    store(apiserver, namespace, a_problem_of("NoSupportingRuntime", "no runtime serves it"))
    copying = a_related(a_pod(initializer=an_initializer(running())), deployment=a_deployment(available=0))

    with served(apiserver.kubeconfig, namespace) as address:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(address) as response:
                assert "no runtime serves it" in await response.text()
            async with session.get(address.with_path("/events")) as events:
                store(apiserver, namespace, copying)
                async for line in events.content:
                    if b"LoadingModel" in line:
                        break
            async with session.get(address.with_path(f"/services/{namespace}/torchserve/yaml")) as response:
                assert ": pvc://leeway" in await response.text()


def test_who_may_see_no_service_is_told(
    apiserver: ApiServer, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = a_reader(apiserver, namespace, [PODS], tmp_path)

    assert main(["dashboard", f"--kubeconfig={reader}", f"--namespace={namespace}"]) == 1
    assert "inferenceservices" in capsys.readouterr().err

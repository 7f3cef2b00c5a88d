"""The dashboard of `isvc run`: the services of this machine, their logs, and requests to them."""

from __future__ import annotations

import json
import re

import aiohttp
import pytest
from yarl import URL

from tests.support.isvc_process import Sandbox, read_until, stop
from tests.support.local_services import runtime, service, write_yaml

READY = "Ctrl-C stops it."
PATH = "/services/default/first"


@pytest.mark.process
async def test_a_run_has_a_dashboard_beside_its_ingress(sandbox: Sandbox) -> None:
    file = write_yaml(sandbox.folder / "services.yaml", service(), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}") as process:
        announced = read_until(process.stdout, READY)
        found = re.search(r"^The dashboard is at (\S+)$", announced, re.MULTILINE)
        assert found
        address = URL(found[1])
        async with aiohttp.ClientSession(address.origin(), cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(address) as response:
                assert 'data-health="Ready"' in await response.text()
            async with session.get(PATH) as response:
                text = await response.text()
            (query,) = re.findall(r'href="[^"]*/logs\?([^"]*container=kserve-container)"', text)
            async with session.get(URL(f"{PATH}/log?{query.replace('&amp;', '&')}", encoded=True)) as lines:
                begun = await lines.content.readline()
            fields = {"protocol": "v1", "model": "fake", "body": json.dumps({"instances": [1]})}
            headers = {"Origin": str(address.origin())}
            async with session.post(f"{PATH}/request", data=fields, headers=headers) as response:
                answer = await response.text()
        async with aiohttp.request("GET", f"http://127.0.0.1:{sandbox.port}/", headers={"Accept": "text/html"}) as page:
            front = await page.text()
        stop(process)

    assert '<a href="/default/first/">first</a>: ready' in front
    assert f'<a href="{address.origin()}/">Dashboard</a>' in front
    assert "token" not in front
    assert begun == b"event: lines\n"
    assert "&#34;predictions&#34;" in answer
    assert process.returncode == 0

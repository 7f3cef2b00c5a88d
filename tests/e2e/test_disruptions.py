"""No request fails while pods are replaced, removed and evicted; `make bench ARGS=disruptions` does so more often."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from tests.support.cluster import HTTP
from tests.support.disruptions import CLAIM, RATE, Services, write_model
from tests.support.namespace import Namespace
from tests.support.steady_load import SteadyLoad
from tests.support.volumes import Volume


def test_no_request_fails_while_pods_come_and_go(namespace: Namespace, tmp_path: Path) -> None:
    write_model(tmp_path)
    services = Services(namespace, urlsplit(HTTP).netloc)
    with Volume(namespace, CLAIM).filled_from(tmp_path):
        services.deploy()
        with SteadyLoad(services.targets(), RATE) as load:
            for number in (1, 2):
                services.roll(number)
            services.scale(2)
            services.drain()
            services.scale(1)
            services.wait_for_ends()

    assert load.failures == {}
    assert all(sent.requests for sent in load.sent.values())

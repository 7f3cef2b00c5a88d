"""No request fails while the operator is upgraded, and while pods are replaced, removed and evicted.

`make bench ARGS=disruptions` does so more often.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.cluster import HTTP, RealCluster
from tests.support.disruptions import CLAIM, RATE, Services, write_model
from tests.support.namespace import Namespace
from tests.support.steady_load import SteadyLoad
from tests.support.upgrading import CHANGED, last_release_operates
from tests.support.volumes import Volume


def test_no_request_fails_while_the_operator_is_upgraded_and_pods_come_and_go(
    cluster: RealCluster, namespace: Namespace, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    write_model(model)
    services = Services(namespace, urlsplit(HTTP).netloc, CHANGED)
    with Volume(namespace, CLAIM).filled_from(model), ExitStack() as last_release:
        last_release.enter_context(last_release_operates(cluster, tmp_path))
        services.deploy()
        pods = services.pods()
        with SteadyLoad(services.targets(), RATE) as load:
            last_release.close()
            services.wait_for_newer_template()
            assert services.pods() == pods
            for number in (1, 2):
                services.roll(number)
            services.scale(2)
            services.drain()
            services.scale(1)
            services.wait_for_ends()

    assert load.failures == {}
    assert all(sent.requests for sent in load.sent.values())

"""What the shipped role allows an account on a real API server, where its rules name objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc_operator.api.names import CA_BUNDLE_CONFIG_MAP
from isvc_operator.kube import requests
from isvc_operator.kube.calls import ApiCalls
from isvc_operator.kube.client import connect
from isvc_operator.kube.errors import RequestRefused
from tests.support.apiserver import ApiServer
from tests.support.credentials import a_config_map
from tests.support.limited_users import a_reader
from tests.support.namespace import Namespace
from tests.support.permissions import shipped_roles


async def test_the_operator_writes_one_config_map_and_no_other(
    apiserver: ApiServer, namespace: Namespace, tmp_path: Path
) -> None:
    (role,) = [role for role in shipped_roles() if role["metadata"]["name"] == "isvc-operator"]
    account = a_reader(apiserver, namespace.name, role["rules"], tmp_path)

    told = list[tuple[str, str, str]]()

    async with connect(
        str(account), agent="another-client", calls=ApiCalls(refused=lambda *of: told.append(of))
    ) as api:
        for certificates in ("first", "renewed"):
            bundle = a_config_map(CA_BUNDLE_CONFIG_MAP, namespace.name, **{"cabundle.crt": certificates})
            await api.send(requests.apply(bundle, force=True))
        for other in (requests.apply, lambda body, **_: requests.create(body)):
            with pytest.raises(RequestRefused, match="forbidden"):
                await api.send(other(a_config_map("another", namespace.name), force=True))
    assert told == [(verb, "configmaps", "authorization") for verb in ("patch", "create")]

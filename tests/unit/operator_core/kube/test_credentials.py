"""The credentials for the API server: of a kubeconfig, and of a pod's service account."""

from __future__ import annotations

import datetime
import os
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes.aio.config import incluster_config

from isvc.api_server import of_token
from isvc_operator.errors import ConfigError
from isvc_operator.kube.client import KubernetesApi
from isvc_operator.kube.credentials import Credentials, credentials_of
from isvc_operator.kube.errors import KubeError
from tests.support.object_stores.tls import issue
from tests.support.stub_session import KUBECONFIG, REQUEST, StubSession, api_of

SERVER = "https://127.0.0.1:6443"


async def what_is_sent(credentials: Credentials) -> dict[str, Any]:
    """All that a client takes of credentials."""
    settings = credentials.configuration
    of_settings = ("ssl_ca_cert", "verify_ssl", "cert_file", "key_file", "tls_server_name")
    return {
        "server": credentials.server,
        "namespace": credentials.namespace,
        "proxy": credentials.proxy,
        "authorization": await credentials.authorization(),
        **{name: getattr(settings, name) for name in of_settings},
    }


def sends(server: str = SERVER, **more: Any) -> dict[str, Any]:
    none = ("namespace", "proxy", "authorization", "ssl_ca_cert", "cert_file", "key_file", "tls_server_name")
    return {"server": server, "verify_ssl": True, **dict.fromkeys(none), **more}


# --- of a kubeconfig ------------------------------------------------------------------------------------


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


def rewrite(path: Path, content: str | None) -> None:
    path.unlink()
    if content is not None:
        path.write_text(content)


def write_for(path: Path, user: dict[str, Any], *, context: dict[str, Any] | None = None, **cluster: Any) -> None:
    """A kubeconfig of one cluster and one user."""
    content = yaml.safe_load(KUBECONFIG)
    content["users"][0]["user"] = user
    content["clusters"][0]["cluster"] |= {name.replace("_", "-"): value for name, value in cluster.items()}
    content["contexts"][0]["context"] |= context or {}
    path.write_text(yaml.safe_dump(content))


async def test_credentials_are_those_of_the_kubeconfig(kubeconfig: Path) -> None:
    assert await what_is_sent(await credentials_of(str(kubeconfig))) == sends(authorization="Bearer secret")


async def test_another_context_than_the_current_one_may_be_named(kubeconfig: Path) -> None:
    content = yaml.safe_load(KUBECONFIG)
    content["users"].append({"name": "ann", "user": {"username": "ann", "password": "pass"}})
    content["contexts"].append({"name": "other", "context": {"cluster": "here", "user": "ann", "namespace": "team"}})
    rewrite(kubeconfig, yaml.safe_dump(content))

    credentials = await credentials_of(str(kubeconfig), context="other")
    await credentials.load_again()

    assert await what_is_sent(credentials) == sends(namespace="team", authorization="Basic YW5uOnBhc3M=")
    with pytest.raises(ConfigError, match="cannot be used"):
        await credentials_of(str(kubeconfig), context="gone")


@pytest.mark.parametrize("content", [None, "", "[]", "nonsense: [", "kind: Config"])
async def test_a_kubeconfig_that_cannot_be_used_is_refused_with_its_path(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)

    with pytest.raises(ConfigError, match=f"kubeconfig {path} cannot be used"):
        await credentials_of(str(path))


@pytest.mark.parametrize("name", ["certificate_authority", "client_certificate"])
async def test_certificates_that_cannot_be_used_are_refused(kubeconfig: Path, tmp_path: Path, name: str) -> None:
    made = issue(tmp_path / "certificates")
    broken = tmp_path / "broken"
    broken.write_text("no certificate")
    is_clients = name == "client_certificate"
    user = {"client-certificate": str(broken), "client-key": str(made.key)} if is_clients else {"token": "secret"}
    write_for(kubeconfig, user, certificate_authority=str(made.authority if is_clients else broken))

    credentials = await credentials_of(str(kubeconfig))
    with pytest.raises(ConfigError, match=r"^the certificates of the API server cannot be used \(.*\); set KUBECONFIG"):
        credentials.connect("isvc-operator", [])


async def test_outside_of_a_pod_a_kubeconfig_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(ConfigError, match="no kubeconfig is set, and this is not a pod"):
        await credentials_of(None)


@dataclass
class Tokens(StubSession):
    """An API server that takes one token; ``used`` has those of the requests."""

    taken: str = "Bearer secret"
    used: list[str] = field(default_factory=list)

    async def request(self, method: str, url: str, *, headers: dict[str, str], **_: Any) -> StubSession:
        self.used.append(headers["Authorization"])
        return StubSession(200 if self.used[-1] == self.taken else 401)


async def started_with(path: Path) -> tuple[KubernetesApi, Tokens]:
    session = Tokens()
    return api_of(session, await credentials_of(str(path))), session


async def test_a_token_that_was_replaced_is_read_again_and_the_request_sent_once_more(kubeconfig: Path) -> None:
    api, client = await started_with(kubeconfig)
    client.taken = "Bearer another"
    rewrite(kubeconfig, KUBECONFIG.replace("secret", "another"))

    assert [await api.send(REQUEST), await api.send(REQUEST)] == [StubSession.body.decode()] * 2

    assert client.used == ["Bearer secret", "Bearer another", "Bearer another"]


@pytest.mark.parametrize("content", [KUBECONFIG, "", None], ids=["the same token", "an empty file", "no file"])
async def test_a_token_that_nobody_replaces_is_refused_once(kubeconfig: Path, content: str | None) -> None:
    api, client = await started_with(kubeconfig)
    client.taken = "Bearer another"
    rewrite(kubeconfig, content)

    with pytest.raises(KubeError) as caught:
        await api.send(REQUEST)

    assert (caught.value.status, client.used) == (401, ["Bearer secret"])


async def test_requests_that_were_refused_together_all_have_the_new_token(kubeconfig: Path) -> None:
    credentials = await credentials_of(str(kubeconfig))
    old = await credentials.authorization()
    rewrite(kubeconfig, KUBECONFIG.replace("secret", "another"))

    assert [await credentials.replaced(old), await credentials.replaced(old)] == [True, True]


PLUGIN = """#!{python}
import json, pathlib
token = pathlib.Path(__file__).with_name("issued").read_text()
runs = pathlib.Path(__file__).with_name("runs")
runs.write_text((runs.read_text() if runs.exists() else "") + token + "\\n")
version = "client.authentication.k8s.io/v1"
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": {{"token": token}}}}))
"""


@pytest.mark.process
async def test_a_plugin_of_a_kubeconfig_is_run_again_when_its_token_is_refused(
    kubeconfig: Path, tmp_path: Path
) -> None:
    plugin, issued = tmp_path / "plugin", tmp_path / "issued"
    plugin.write_text(PLUGIN.format(python=sys.executable))
    plugin.chmod(0o700)
    write_for(kubeconfig, {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}})
    issued.write_text("secret")
    api, client = await started_with(kubeconfig)
    await api.send(REQUEST)

    client.taken = "Bearer another"
    issued.write_text("another")
    await api.send(REQUEST)

    assert client.used == ["Bearer secret", "Bearer secret", "Bearer another"]
    assert (tmp_path / "runs").read_text().split() == ["secret", "another"]


# --- in a pod -------------------------------------------------------------------------------------------


@dataclass
class Passing:
    """The time of the client, which stands still until a test moves it."""

    seconds: float = 0.0

    def now(self) -> datetime.datetime:
        return datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=self.seconds)


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Passing:
    passing = Passing()
    monkeypatch.setattr(incluster_config, "datetime", SimpleNamespace(datetime=passing, timedelta=datetime.timedelta))
    return passing


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pod's service account."""
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("first\n")
    issue(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_in_a_pod_the_credentials_are_those_of_its_service_account(
    service_account: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)

    credentials = await credentials_of(None)

    assert await what_is_sent(credentials) == sends(
        server, authorization="bearer first", ssl_ca_cert=str(service_account / "ca.crt")
    )
    connections = credentials.connect("isvc-operator", [])
    tls = connections.ssl_context
    assert [len(tls.get_ca_certs()), tls.verify_mode, tls.check_hostname] == [1, ssl.CERT_REQUIRED, True]
    await connections.close()


@pytest.mark.usefixtures("passing")
async def test_a_pods_token_is_read_again_when_it_is_refused(service_account: Path) -> None:
    credentials = await credentials_of(None)
    (service_account / "token").write_text("second")

    assert await credentials.replaced("bearer first")
    assert await credentials.authorization() == "bearer second"


@pytest.mark.parametrize("content", ["", None], ids=["empty", "missing"])
async def test_a_token_that_cannot_be_read_for_a_moment_stays_in_use(
    service_account: Path, passing: Passing, content: str | None
) -> None:
    credentials = await credentials_of(None)
    await credentials.authorization()
    rewrite(service_account / "token", content)
    passing.seconds = 60.0

    assert await credentials.authorization() == "bearer first"
    assert not await credentials.replaced("bearer first")
    (service_account / "token").write_text("second")
    assert await credentials.authorization() == "bearer second"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
@pytest.mark.parametrize("content", ["", None], ids=["empty", "missing"])
async def test_a_pod_without_a_service_account_is_told_so(
    service_account: Path, name: str, content: str | None
) -> None:
    rewrite(service_account / name, content)

    with pytest.raises(
        ConfigError, match=r"^no kubeconfig is set, and the pod's service account cannot be used \(.*; set KUBECONFIG"
    ):
        await credentials_of(None)


# --- of another -----------------------------------------------------------------------------------------


async def test_of_another_persons_token_nothing_of_ours_is_sent(kubeconfig: Path, tmp_path: Path) -> None:
    made = issue(tmp_path)
    write_for(
        kubeconfig,
        {"token": "secret", "client-certificate": str(made.chain), "client-key": str(made.key)},
        context={"namespace": "team"},
        certificate_authority=str(made.authority),
        tls_server_name="api.example",
        proxy_url="http://proxy:8080",
    )
    ours = await credentials_of(str(kubeconfig))
    same = {
        "ssl_ca_cert": str(made.authority),
        "tls_server_name": "api.example",
        "proxy": "http://proxy:8080",
    }

    assert await what_is_sent(of_token(ours, "ann")) == sends(authorization="Bearer ann", **same)
    assert await what_is_sent(of_token(ours, "")) == sends(**same)
    assert await what_is_sent(ours) == sends(
        authorization="Bearer secret", namespace="team", cert_file=str(made.chain), key_file=str(made.key), **same
    )


async def test_another_persons_token_is_that_persons_to_renew(service_account: Path) -> None:
    theirs = of_token(await credentials_of(None), "ann")
    (service_account / "token").write_text("second")

    assert not await theirs.replaced("Bearer ann")
    assert await theirs.authorization() == "Bearer ann"


# --- the proxy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "named", "proxy"),
    [
        ({}, None, None),
        ({"https_proxy": "http://of-the-environment"}, None, "http://of-the-environment"),
        ({"https_proxy": "http://of-the-environment", "no_proxy": "127.0.0.1"}, None, None),
        ({"http_proxy": "http://of-the-environment"}, None, None),
        ({"https_proxy": "http://of-the-environment"}, "http://of-the-cluster", "http://of-the-cluster"),
        ({"no_proxy": "127.0.0.1"}, "http://of-the-cluster", "http://of-the-cluster"),
        ({"https_proxy": "http://of-the-environment", "no_proxy": "a.b, 127.0.0.0/8"}, None, None),
        ({"https_proxy": "http://of-the-environment", "no_proxy": "10.0.0.0/8,*.a"}, None, "http://of-the-environment"),
        ({"https_proxy": "of-the-environment:3128"}, None, "http://of-the-environment:3128"),
        ({}, "of-the-cluster:3128", "http://of-the-cluster:3128"),
    ],
)
async def test_the_proxy_is_that_of_the_kubeconfig_or_of_the_environment(
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    named: str | None,
    proxy: str | None,
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    of_cluster: dict[str, Any] = {"proxy_url": named} if named else {}
    write_for(kubeconfig, {"token": "secret"}, **of_cluster)

    assert (await credentials_of(str(kubeconfig))).proxy == proxy


@pytest.mark.parametrize("proxy", ["socks5://me:secret@host:1080", "http://", "http://[::1", "http://host:99999"])
async def test_what_is_not_a_proxy_for_http_is_refused_without_its_password(kubeconfig: Path, proxy: str) -> None:
    write_for(kubeconfig, {"token": "secret"}, proxy_url=proxy)
    credentials = await credentials_of(str(kubeconfig))

    with pytest.raises(ConfigError) as raised:
        _ = credentials.proxy

    assert str(raised.value) == (
        "the proxy to the API server is not one for HTTP; write http://HOST:PORT as proxy-url in the kubeconfig, or in "
        "HTTPS_PROXY or HTTP_PROXY"
    )

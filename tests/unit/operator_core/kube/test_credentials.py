"""The credentials for the API server: of a kubeconfig, and of a pod's service account."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from isvc_operator.errors import ConfigError
from isvc_operator.kube import credentials as credentials_module
from isvc_operator.kube.client import KubernetesApi
from isvc_operator.kube.credentials import Access, Credentials
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.pause import Pause
from tests.support.object_stores.tls import issue
from tests.support.stub_session import KUBECONFIG, REQUEST, StubSession


async def test_credentials_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)

    credentials = Credentials(str(path))
    await credentials.load()

    access = credentials.access
    assert access == Access("https://127.0.0.1:6443", access.tls, authorization="Bearer secret")


@pytest.mark.parametrize("content", [None, "", "[]", "nonsense: [", "kind: Config"])
async def test_a_kubeconfig_that_cannot_be_used_is_refused_with_its_path(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)

    with pytest.raises(ConfigError, match=f"kubeconfig {path} cannot be used"):
        await Credentials(str(path)).load()


async def test_outside_of_a_pod_a_kubeconfig_has_to_be_named() -> None:
    with pytest.raises(ConfigError, match="no kubeconfig is set, and this is not a pod"):
        await Credentials(None, environment={}).load()


@dataclass
class Tokens(StubSession):
    """An API server that takes one token; ``used`` has those of the requests."""

    taken: str = "Bearer secret"
    used: list[str] = field(default_factory=list)

    async def request(self, method: str, url: str, *, headers: dict[str, str], **_: Any) -> StubSession:
        self.used.append(headers["Authorization"])
        return StubSession(200 if self.used[-1] == self.taken else 401)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


def rewrite(kubeconfig: Path, content: str | None) -> None:
    kubeconfig.unlink()
    if content is not None:
        kubeconfig.write_text(content)


async def started_with(path: Path) -> tuple[KubernetesApi, Tokens]:
    credentials = Credentials(str(path))
    await credentials.load()
    session = Tokens()
    return KubernetesApi(cast(Any, session), Pause(lambda: 0.0, lambda: 0.0), credentials=credentials), session


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
    credentials = Credentials(str(kubeconfig))
    await credentials.load()
    old = credentials.access.authorization
    rewrite(kubeconfig, KUBECONFIG.replace("secret", "another"))

    assert [await credentials.replaced(old), await credentials.replaced(old)] == [True, True]


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(credentials_module, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("first\n")
    issue(tmp_path).authority.rename(tmp_path / "ca.crt")
    return tmp_path


def in_a_pod(clock: Callable[[], float] = lambda: 0.0, *, host: str = "10.0.0.1") -> Credentials:
    return Credentials(None, clock, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"})


@pytest.mark.usefixtures("service_account")
@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_in_a_pod_the_credentials_are_those_of_its_service_account(
    service_account: Path, host: str, server: str
) -> None:
    credentials = in_a_pod(host=host)

    await credentials.load()

    access = credentials.access
    assert access == Access(server, access.tls, str(service_account / "ca.crt"), "Bearer first")
    assert [len(access.tls.get_ca_certs()), access.tls.verify_mode, access.tls.check_hostname] == [
        1, ssl.CERT_REQUIRED, True,
    ]  # fmt: skip


async def test_a_pods_token_is_read_again_after_a_minute(service_account: Path) -> None:
    now = [0.0]
    credentials = in_a_pod(lambda: now[0])
    await credentials.load()
    (service_account / "token").write_text("second")

    used = []
    for now[0] in (59.0, 60.0, 61.0):
        used.append(await credentials.authorization())

    assert used == ["Bearer first", "Bearer second", "Bearer second"]


async def test_a_pods_token_is_read_again_when_it_is_refused(service_account: Path) -> None:
    credentials = in_a_pod()
    await credentials.load()
    (service_account / "token").write_text("second")

    assert await credentials.replaced("Bearer first")
    assert await credentials.authorization() == "Bearer second"


@pytest.mark.parametrize("content", ["", None], ids=["empty", "missing"])
async def test_a_token_that_cannot_be_read_for_a_moment_stays_in_use(
    service_account: Path, content: str | None
) -> None:
    now = [0.0]
    credentials = in_a_pod(lambda: now[0])
    await credentials.load()
    rewrite(service_account / "token", content)
    now[0] = 60.0

    assert await credentials.authorization() == "Bearer first"
    (service_account / "token").write_text("second")
    assert await credentials.authorization() == "Bearer second"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
@pytest.mark.parametrize("content", ["", None], ids=["empty", "missing"])
async def test_a_pod_without_a_service_account_is_told_so(
    service_account: Path, name: str, content: str | None
) -> None:
    rewrite(service_account / name, content)

    with pytest.raises(
        ConfigError, match=r"^no kubeconfig is set, and the pod'?s?.* service account .*; set KUBECONFIG"
    ):
        await in_a_pod().load()

"""Whose credentials and which namespace a command takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from isvc.commands.cluster import ClusterFlags
from isvc_operator.errors import ConfigError

CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "first",
    "clusters": [{"name": "one", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "contexts": [
        {"name": "first", "context": {"cluster": "one", "user": "me", "namespace": "blue"}},
        {"name": "second", "context": {"cluster": "one", "user": "me"}},
    ],
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(CONFIG))
    return str(file)


@pytest.mark.parametrize(
    ("context", "flag", "namespace"),
    [(None, None, "blue"), ("second", None, "default"), (None, "green", "green")],
    ids=["of the current context", "of a context without one", "of the flag"],
)
async def test_the_namespace_is(kubeconfig: str, context: str | None, flag: str | None, namespace: str) -> None:
    async with ClusterFlags(kubeconfig, context, flag).connect(asks_first=False) as (_, found):
        assert found == namespace


async def test_a_context_that_is_not_there_is_named(kubeconfig: str) -> None:
    with pytest.raises(ConfigError, match="third"):
        async with ClusterFlags(kubeconfig, "third").connect():
            pass


def test_kubectls_own_file_is_used_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ClusterFlags().found() is None

    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").touch()

    assert ClusterFlags().found() == str(tmp_path / ".kube" / "config")
    assert ClusterFlags(kubeconfig="mine").found() == "mine"


@pytest.mark.parametrize(
    ("users", "why"),
    [
        ([], "the user me of the context second is not in it"),
        (
            [{"name": "me", "user": {"exec": {"command": "a-plugin-that-is-not-there", "apiVersion": "v1"}}}],
            "the program a-plugin-that-is-not-there, which has the credentials of user me, is not on PATH: install it",
        ),
    ],
    ids=["no user", "no plugin"],
)
async def test_what_a_context_lacks_for_its_credentials_is_named(tmp_path: Path, users: list[object], why: str) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({**CONFIG, "users": users}))

    with pytest.raises(ConfigError) as raised:
        async with ClusterFlags(str(file), "second").connect(asks_first=False):
            pass

    assert str(raised.value) == (
        f"kubeconfig {file} cannot be used ({why}); set KUBECONFIG or --kubeconfig to a file that kubectl can use"
    )


async def test_the_folder_of_a_user_that_does_not_exist_is_no_kubeconfig() -> None:
    path = "~nobody-of-this-name/config"

    with pytest.raises(ConfigError, match=f"kubeconfig {path} cannot be used \\(it does not exist\\)"):
        async with ClusterFlags(path).connect():
            pass

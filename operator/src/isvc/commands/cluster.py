"""The flags of the commands that talk to a cluster: whose credentials, and which namespace."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from isvc.commands.names import Namespace

if TYPE_CHECKING:
    from isvc_operator.kube.client import KubernetesApi


@dataclass(frozen=True)
class ClusterFlags:
    """Credentials and namespace as the flags have them; None is what the kubeconfig says."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    @asynccontextmanager
    async def connect(self, *, asks_first: bool = True) -> AsyncIterator[tuple[KubernetesApi, str]]:
        """Yield a connection with the API server, and the namespace: the flag's, else that of the context.

        Raises ConfigError for a kubeconfig that cannot be used, and KubeError if what it names is no API server, unless
        the caller asks that itself.
        """
        from isvc.source.server import server_version
        from isvc_operator.kube.client import connect

        async with connect(self.found(), context=self.context, agent="isvc") as api:
            if asks_first:
                await server_version(api)
            yield api, self.namespace or api.namespace

    @asynccontextmanager
    async def connect_others(self) -> AsyncIterator[Callable[[str], KubernetesApi]]:
        """Yield what connects the owner of a token with the same API server."""
        from isvc_operator.kube.client import connect_others

        async with connect_others(self.found(), context=self.context, agent="isvc") as api_of:
            yield api_of

    def found(self) -> str | None:
        """Return the kubeconfig: the flag's, else kubectl's own file; None if there is neither, as in a pod."""
        if self.kubeconfig:
            return self.kubeconfig
        file = Path("~/.kube/config").expanduser()
        return str(file) if file.is_file() else None


def credential_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say whose credentials are used; the command gets them as ``cluster``."""

    @click.option(
        "--kubeconfig",
        envvar="KUBECONFIG",
        metavar="FILE",
        help="credentials (default: ~/.kube/config, in a pod its service account) [KUBECONFIG]",
    )
    @click.option("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")
    @functools.wraps(command)
    def with_flags(*, kubeconfig: str | None, context: str | None, **others: Any) -> Any:
        return command(cluster=ClusterFlags(kubeconfig, context), **others)

    return with_flags


def refuse_credentials(why: str) -> None:
    """Raise a usage error for a flag of credentials where no cluster is asked; KUBECONFIG is set for other commands."""
    context = click.get_current_context()
    for name in ("kubeconfig", "context"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} {why}")


def cluster_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of credentials and of the namespace; the command gets them as ``cluster``."""
    return _with_namespace(command, Namespace())


def cluster_flags_of_several(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same flags for a command that may have several namespaces, with commas between them."""
    return _with_namespace(command, Namespace(several=True))


def _with_namespace(command: Callable[..., Any], type_: Namespace) -> Callable[..., Any]:
    @credential_flags
    @click.option("-n", "--namespace", type=type_, metavar="NAME", help="namespace (default: that of the context)")
    @functools.wraps(command)
    def with_flags(*, cluster: ClusterFlags, namespace: str | None, **others: Any) -> Any:
        return command(cluster=replace(cluster, namespace=namespace), **others)

    return with_flags

"""The flags of the commands that talk to a cluster: whose credentials, and which namespace."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from isvc.commands.names import Namespace

if TYPE_CHECKING:
    from isvc.api_server import PersonsApi
    from isvc.source.runs import LocalRun

_COMPLETION_SECONDS = 2.0  # that somebody waits for after Tab


@dataclass(frozen=True)
class ClusterFlags:
    """Credentials and namespace as the flags have them; None is what the kubeconfig says.

    ``local``: what ``isvc run`` serves on this machine is asked, not a cluster.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    local: bool = False

    @asynccontextmanager
    async def connect(self, *, asks_first: bool = True) -> AsyncIterator[tuple[PersonsApi, str]]:
        """Yield a connection with the API server, and the namespace: the flag's, else that of the context.

        Raises ConfigError for a kubeconfig that cannot be used, KubeError if what it names is not an API server, and
        NotInstalled if that has no services, unless the caller asks that itself.
        """
        import logging

        from isvc.api_server import connect
        from isvc.source.server import require_services, server_version

        logging.getLogger("isvc_operator").addHandler(logging.NullHandler())  # commands say what people have to know
        async with connect(self.found(), context=self.context) as api:
            if asks_first:
                await server_version(api)
                await require_services(api)
            yield api, self.namespace or api.namespace

    @asynccontextmanager
    async def connect_others(self) -> AsyncIterator[Callable[[str], PersonsApi]]:
        """Yield what connects the owner of a token with the same API server."""
        from isvc.api_server import connect_others

        async with connect_others(self.found(), context=self.context) as api_of:
            yield api_of

    async def runs(self) -> Sequence[LocalRun]:
        """Return the runs that are asked instead of a cluster: with ``local``, or where no cluster is known.

        Raises NotSeen with ``local`` if there are none, and ConfigError if there is no cluster either.
        """
        if not self.local and (self.found() or os.environ.get("KUBERNETES_SERVICE_HOST")):
            return ()
        from isvc.source.errors import NotSeen
        from isvc.source.runs import local_runs
        from isvc_operator.errors import ConfigError

        if runs := await local_runs():
            return runs
        start = "no isvc run of yours is running on this machine; start one: isvc run FILE"
        if self.local:
            raise NotSeen(start)
        raise ConfigError(
            f"no kubeconfig is set, and {start}, or set KUBECONFIG or --kubeconfig to a file that kubectl can use"
        )

    def found(self) -> str | None:
        """Return the kubeconfig: the flag's, else kubectl's own file; None if there is neither, as in a pod."""
        if self.kubeconfig:
            return self.kubeconfig
        file = Path(os.path.expanduser("~/.kube/config"))  # noqa: PTH111 - Path's raises for a user without a home
        return str(file) if file.is_file() else None


def service_names(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the services whose names begin so, for a shell that completes one; none if they are not known soon."""
    import asyncio

    given = {name: context.params.get(name) for name in ("kubeconfig", "context", "namespace")}
    cluster = ClusterFlags(**given, local=bool(context.params.get("local")))
    try:
        found = asyncio.run(asyncio.wait_for(_service_names(cluster), _COMPLETION_SECONDS))
    except Exception:  # noqa: BLE001 - a shell has no place for an error
        return []
    return [name for name in found if name.startswith(begun)]


async def _service_names(cluster: ClusterFlags) -> list[str]:
    from isvc.source.runs import DEFAULT_NAMESPACE, run_source
    from isvc_operator.api import inference_service
    from isvc_operator.kube.requests import ApiRequest, decode, path_of

    if runs := await cluster.runs():
        async with run_source(runs, cluster.namespace or DEFAULT_NAMESPACE) as source:
            return [key.name for key in source.keys()]  # noqa: SIM118 - it is not a mapping
    async with cluster.connect(asks_first=False) as (api, namespace):
        listed = decode(await api.send(ApiRequest("GET", path_of(inference_service.KIND, namespace))))
        return [item["metadata"]["name"] for item in listed["items"]]


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


def service_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a command about services, which a cluster may have, or ``isvc run``."""
    return cluster_flags(_with_local(command))


def service_flags_of_several(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same flags for a command that may have several namespaces, with commas between them."""
    return cluster_flags_of_several(_with_local(command))


def _with_local(command: Callable[..., Any]) -> Callable[..., Any]:
    @click.option(
        "--local",
        is_flag=True,
        help="what isvc run serves on this machine (default: a cluster, if there is a kubeconfig)",
    )
    @functools.wraps(command)
    def with_flag(*, cluster: ClusterFlags, local: bool, **others: Any) -> Any:
        if local:
            refuse_credentials("is of a cluster: leave it out, or --local.")
        return command(cluster=replace(cluster, local=local), **others)

    return with_flag


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

"""How to reach the API server, by the Kubernetes client: in a pod its service account, elsewhere a kubeconfig.

The client reads a pod's token again every minute. All credentials are read again when the API server refuses them: a
kubeconfig's token may come from a plugin, and a certificate authority is replaced after some years.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME
from yaml import YAMLError

from isvc_operator.errors import ConfigError
from isvc_operator.kube.connections import ApiConnections
from isvc_operator.text import one_line

BEARER: Final = "BearerToken"  # the client's name of the header Authorization, whatever its scheme
_BUFFERED: Final = 2**16  # bytes of a response, as aiohttp has it; the client's 2 MiB are for reading whole lines
# What the client raises for a file that is not a kubeconfig.
_OF_ANOTHER_SHAPE: Final = (TypeError, AttributeError, KeyError)
_UNREADABLE: Final = (ConfigException, YAMLError, OSError, ValueError, *_OF_ANOTHER_SHAPE)


@dataclass
class Credentials:
    """A client's settings. ``read`` fills them, at first and whenever they have to be read again; raises ConfigError.

    ``namespace`` is that of the kubeconfig's context.
    """

    read: Callable[[Configuration], Awaitable[str | None]]
    configuration: Configuration
    namespace: str | None = None
    _header: str | None = None  # that of the last request

    @property
    def server(self) -> str:
        host: str = self.configuration.host
        return host

    @property
    def proxy(self) -> str | None:
        """The proxy to the API server: the kubeconfig's, else that of the environment; raises ConfigError."""
        parts = urlsplit(self.server)
        found: str | None = self.configuration.proxy
        if not found and not proxy_bypass(parts.netloc) and not _is_exempt(parts.hostname or ""):
            found = getproxies().get(parts.scheme)
        return _proxy_url(found) if found else None

    async def load_again(self) -> None:
        """Read them again. One that is being replaced stays as it was; the next refusal looks again."""
        with suppress(ConfigError):
            await self.read(self.configuration)

    async def authorization(self) -> str | None:
        """Return the header for the next request."""
        with suppress(ConfigException, OSError):  # the token is being replaced
            found = (await self.configuration.auth_settings()).get(BEARER)
            self._header = found["value"].strip() if found else None
        return self._header

    async def replaced(self, refused: str | None) -> bool:
        """Whether there is another header than the one that the API server has refused; looks for it once."""
        if await self.authorization() == refused:
            await self.load_again()
        return await self.authorization() != refused

    def connect(self, agent: str, fence: aiohttp.TraceConfig | None) -> ApiConnections:
        """Return the client's connections; raises ConfigError for a certificate that cannot be read."""
        settings = self.configuration
        settings.trace_configs = [fence] if fence else []
        settings.client_session_kwargs = {
            # To compress costs the API server more than it saves.
            "headers": {"User-Agent": agent, "Accept-Encoding": "identity"},
            "trust_env": False,  # aiohttp would read the environment, and the file netrc, for each request
            "cookie_jar": aiohttp.DummyCookieJar(),
            "read_bufsize": _BUFFERED,
        }
        try:
            return ApiConnections(settings)
        except OSError as error:
            raise _unusable("the certificates of the API server cannot be used", error) from error


def _is_exempt(host: str) -> bool:
    """Whether an address is in a network of ``NO_PROXY``, which Python does not look for."""
    with suppress(ValueError):
        address = ip_address(host)
        for entry in getproxies().get("no", "").split(","):
            with suppress(ValueError):
                if address in ip_network(entry.strip(), strict=False):
                    return True
    return False


def _proxy_url(text: str) -> str:
    """Return the URL of a proxy, which kubectl also takes as HOST:PORT; raises ConfigError without what it says."""
    url = text if "://" in text else f"http://{text}"
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url
    raise ConfigError(
        "the proxy to the API server is not one for HTTP; write http://HOST:PORT as proxy-url in the kubeconfig, or in "
        "HTTPS_PROXY or HTTP_PROXY"
    )


async def credentials_of(kubeconfig: str | None, *, context: str | None = None) -> Credentials:
    """Return those of the kubeconfig, and else of the pod's service account; raises ConfigError.

    ``context``: which of the kubeconfig's; the current one without it.
    """

    async def read(found: Configuration) -> str | None:
        if kubeconfig:
            return await _read_kubeconfig(kubeconfig, context, found)
        _read_service_account(found)
        return None

    found = new_configuration()
    namespace = await read(found)
    return Credentials(read, found, namespace)


def new_configuration() -> Configuration:
    """Return settings without credentials."""
    found = Configuration()
    found.connection_pool_maxsize = 0  # no limit: a watch keeps its connection
    # Python 3.13 also refuses a certificate without key identifiers; those of older clusters (EKS, MicroK8s) lack them.
    # kubectl accepts them; chain, dates and host are checked as ever.
    found.disable_strict_ssl_verification = True
    return found


def _read_service_account(found: Configuration) -> None:
    if SERVICE_HOST_ENV_NAME not in os.environ:
        raise _unusable("no kubeconfig is set, and this is not a pod", f"{SERVICE_HOST_ENV_NAME} is not set")
    try:
        load_incluster_config(found)
    except (ConfigException, OSError) as error:
        raise _unusable("no kubeconfig is set, and the pod's service account cannot be used", error) from error


async def _read_kubeconfig(path: str, context: str | None, found: Configuration) -> str | None:
    try:
        loaded: Any = await load_kube_config(config_file=path, context=context, client_configuration=found)
        namespace: str | None = loaded.current_context["context"].get("namespace")
    except _UNREADABLE as error:
        raise unusable_kubeconfig(path, error) from error
    return namespace


def unusable_kubeconfig(path: str, why: object) -> ConfigError:
    """Return the error for a kubeconfig, with what to do."""
    return _unusable(f"kubeconfig {path} cannot be used", why)


def _unusable(what: str, why: object) -> ConfigError:
    return ConfigError(f"{what} ({one_line(str(why))}); set KUBECONFIG or --kubeconfig to a file that kubectl can use")

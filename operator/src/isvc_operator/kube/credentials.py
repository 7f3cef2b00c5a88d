"""How to reach the API server, by the Kubernetes client: in a pod its service account, elsewhere a kubeconfig.

Of a file that is not a kubeconfig, the client says what Python says, so its shape is checked here. The client reads a
pod's token again every minute. All credentials are read again when the API server refuses them: a kubeconfig's token
may come from a plugin, and a certificate authority is replaced after some years.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME
from yaml import YAMLError

from isvc_operator.errors import ConfigError
from isvc_operator.limits import KUBECONFIG_BYTES
from isvc_operator.text import one_line

# The lists of a kubeconfig, and what each of their items has beside its name.
_LISTS: Final = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))


class WrongKubeconfig(ValueError):
    """It is none; the message says what is wrong with it, and in which file if there are several."""


def existing(paths: str) -> str:
    """Return those of the paths that exist, as kubectl does; raises WrongKubeconfig if none does, or for a wrong file.

    Several are separated as on PATH.
    """
    named = [path for path in paths.split(os.pathsep) if path]
    found = [path for path in named if Path(path).expanduser().exists()]
    if not found:
        raise WrongKubeconfig("it does not exist" if len(named) == 1 else "none of these files exists")
    for path in found:
        if problem := next(_problems(Path(path).expanduser()), None):
            raise WrongKubeconfig(problem if len(named) == 1 else f"{path}: {problem}")
    return os.pathsep.join(found)


def _problems(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            content = file.read(KUBECONFIG_BYTES + 1)
        config = yaml.safe_load(content.decode()) if len(content) <= KUBECONFIG_BYTES else None
    except OSError as error:
        yield f"it cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        yield "it is not UTF-8 text"
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        yield "it is not YAML" + (f": line {mark.line + 1} cannot be read" if mark else "")
    else:
        if len(content) > KUBECONFIG_BYTES:
            yield f"it has more than {KUBECONFIG_BYTES} bytes"
        elif not content.strip():
            yield "it is empty"
        else:
            yield from _problems_of(config)


def _problems_of(config: Any) -> Iterator[str]:
    if not isinstance(config, Mapping):
        yield "it has no fields such as clusters and contexts"
        return
    for name, part in _LISTS:
        items = config.get(name) or []
        if not isinstance(items, list):
            yield f"{name} is not a list"
            return
        for item in items:
            if not (isinstance(item, Mapping) and isinstance(item.get("name"), str)):
                yield f"an item of {name} has no name"
            elif not isinstance(item.get(part) or {}, Mapping):
                yield f"{name}: {part} of {item['name']} has no fields"
            elif part == "cluster" and not _is_url((item.get(part) or {}).get("server")):
                yield f"{name}: the server of {item['name']} is not a URL such as https://10.0.0.1:6443"


def _is_url(server: object) -> bool:
    try:
        parts = urlsplit(server) if isinstance(server, str) else None
        return bool(parts and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        return False


_BEARER: Final = "BearerToken"  # the client's name of the header Authorization, whatever its scheme
_BUFFERED: Final = 2**16  # bytes of a response, as aiohttp has it; the client's 2 MiB are for reading whole lines
# What the client raises for a file that is no kubeconfig.
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
        """The URL of the API server."""
        host: str = self.configuration.host
        return host

    @property
    def proxy(self) -> str | None:
        """The proxy to the API server: the kubeconfig's, else that of the environment."""
        parts = urlsplit(self.server)
        found: str | None = self.configuration.proxy
        return found or (None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme))

    async def load_again(self) -> None:
        """Read them again. One that is being replaced stays as it was; the next refusal looks again."""
        with suppress(ConfigError):
            await self.read(self.configuration)

    async def authorization(self) -> str | None:
        """Return the header for the next request."""
        with suppress(ConfigException, OSError):  # the token is being replaced
            found = (await self.configuration.auth_settings()).get(_BEARER)
            self._header = found["value"].strip() if found else None
        return self._header

    async def replaced(self, refused: str | None) -> bool:
        """Whether there is another header than the one that the API server has refused; looks for it once."""
        if await self.authorization() == refused:
            await self.load_again()
        return await self.authorization() != refused

    def of_token(self, token: str) -> Credentials:
        """Return those of the owner of a token for the same API server, with nothing of these credentials."""
        ours, theirs = self.configuration, _configuration()
        for name in ("host", "ssl_ca_cert", "verify_ssl", "tls_server_name", "proxy"):
            setattr(theirs, name, getattr(ours, name))
        if token:
            theirs.api_key[_BEARER] = f"Bearer {token}"
        return Credentials(_nothing, theirs)

    def connect(self, agent: str, observed_by: list[aiohttp.TraceConfig]) -> RESTClientObject:
        """Return the client's connections; raises ConfigError for a certificate that cannot be read."""
        settings = self.configuration
        settings.trace_configs = observed_by
        settings.client_session_kwargs = {
            # To compress costs the API server more than it saves.
            "headers": {"User-Agent": agent, "Accept-Encoding": "identity"},
            "trust_env": False,  # aiohttp would read the environment, and the file netrc, for each request
            "cookie_jar": aiohttp.DummyCookieJar(),
            "read_bufsize": _BUFFERED,
        }
        try:
            connections = RESTClientObject(settings)
        except OSError as error:
            raise _unusable("the certificates of the API server cannot be used", error) from error
        # It makes its session with its first request; ours are sent by the session.
        connections.pool_manager = connections._create_pool_manager()
        return connections


async def credentials_of(kubeconfig: str | None, *, context: str | None = None) -> Credentials:
    """Return those of the kubeconfig, and else of the pod's service account; raises ConfigError.

    ``context``: which of the kubeconfig's; the current one without it.
    """

    async def read(found: Configuration) -> str | None:
        if kubeconfig:
            return await _read_kubeconfig(kubeconfig, context, found)
        _read_service_account(found)
        return None

    found = _configuration()
    namespace = await read(found)
    return Credentials(read, found, namespace)


async def _nothing(_: Configuration) -> str | None:
    """Another's token is that person's to renew."""
    return None


def _configuration() -> Configuration:
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
        loaded: Any = await load_kube_config(config_file=existing(path), context=context, client_configuration=found)
        namespace: str | None = loaded.current_context["context"].get("namespace")
    except _UNREADABLE as error:
        raise _unusable(f"kubeconfig {path} cannot be used", error) from error
    return namespace


def _unusable(what: str, why: object) -> ConfigError:
    return ConfigError(f"{what} ({one_line(str(why))}); set KUBECONFIG or --kubeconfig to a file that kubectl can use")

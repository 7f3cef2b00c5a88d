"""How to reach the API server: in a pod with its service account, elsewhere with a kubeconfig.

Both are replaced while the operator runs: a pod's token lives for an hour, a certificate authority for years.

The library that reads kubeconfigs, with all their plugins, takes 20 MiB and a quarter of a second to import. A pod does
without it.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from yaml import YAMLError

from isvc_operator.errors import ConfigError
from isvc_operator.kube.kubeconfig import existing
from isvc_operator.text import one_line
from isvc_operator.tls import trusting

# What the library raises for a file that is no kubeconfig.
_OF_ANOTHER_SHAPE: Final = (TypeError, AttributeError, KeyError)
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS: Final = 60.0  # after which a pod's token, which lives for an hour, is read again


@dataclass(frozen=True)
class Access:
    """The API server's URL and what it needs. ``authority``: a file; None for those of the system.

    ``authorization`` is a header, and None with a client certificate. ``namespace``: that of the kubeconfig's context.
    """

    server: str
    tls: ssl.SSLContext
    authority: str | None = None
    authorization: str | None = None
    server_name: str | None = None
    proxy: str | None = None
    namespace: str | None = None

    def of_token(self, token: str) -> Access:
        """Return the same API server for the owner of a token, with nothing of these credentials."""
        tls = trusting(self.authority)
        tls.check_hostname, tls.verify_mode = self.tls.check_hostname, self.tls.verify_mode
        return replace(self, tls=tls, authorization=f"Bearer {token}", namespace=None)


@dataclass
class Credentials:
    """Those of ``kubeconfig``, or else of the pod's service account. ``clock`` counts seconds.

    ``context``: which of the kubeconfig's; the current one without it.

    A pod's token is read again every minute, all credentials are when the API server refuses them.
    """

    kubeconfig: str | None
    clock: Callable[[], float] = time.monotonic
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    context: str | None = None
    _due: float = float("inf")

    async def load(self) -> None:
        """Read them from their files; raises ConfigError."""
        if self.kubeconfig:
            self.access = await _of_kubeconfig(self.kubeconfig, self.context)
        else:
            self.access = _of_pod(self.environment)
            self._due = self.clock() + TOKEN_SECONDS

    async def load_again(self) -> None:
        """Read them again; connections trust the authority that the file names now, too: it may be another one."""
        tls = self.access.tls
        with suppress(ConfigError, OSError):  # it is being replaced; the next refusal looks again
            await self.load()
            self.access = replace(self.access, tls=tls)
            if self.access.authority:
                tls.load_verify_locations(self.access.authority)

    async def authorization(self) -> str | None:
        """Return the header for the next request."""
        if self.clock() >= self._due:
            await self.load_again()
        return self.access.authorization

    async def replaced(self, refused: str | None) -> bool:
        """Whether there is another header than the one that the API server has refused; looks for it once."""
        if self.access.authorization == refused:
            await self.load_again()
        return self.access.authorization != refused


@dataclass(frozen=True)
class TokenOfAnother:
    """The credentials of somebody whose token is known: it is that person's to renew. ``access``: of that token."""

    access: Access

    async def load_again(self) -> None:
        """Trust the authority that the file names now, too."""
        with suppress(OSError, ssl.SSLError):  # it is being replaced; the next failure looks again
            if self.access.authority:
                self.access.tls.load_verify_locations(self.access.authority)

    async def authorization(self) -> str | None:
        """Return the header for the next request."""
        return self.access.authorization

    async def replaced(self, refused: str | None) -> bool:
        """There is no other token."""
        return self.access.authorization != refused


def _of_pod(environment: Mapping[str, str]) -> Access:
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not (host and port):
        raise _unusable("no kubeconfig is set, and this is not a pod", "KUBERNETES_SERVICE_HOST is not set")
    authority = str(SERVICE_ACCOUNT / "ca.crt")
    try:
        token = (SERVICE_ACCOUNT / "token").read_text().strip()
        tls = trusting(authority)
    except OSError as error:
        raise _unusable("no kubeconfig is set, and the pod has no service account", error) from error
    if not token:
        raise _unusable("no kubeconfig is set, and the pod's service account cannot be used", "its token is empty")
    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", tls, authority, f"Bearer {token}")


async def _of_kubeconfig(path: str, context: str | None) -> Access:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException, load_kube_config

    found = Configuration()
    try:
        loaded = await load_kube_config(config_file=existing(path), context=context, client_configuration=found)
        namespace = loaded.current_context["context"].get("namespace")
        tls = trusting(found.ssl_ca_cert)
        if found.cert_file:
            tls.load_cert_chain(found.cert_file, found.key_file)
    except (ConfigException, YAMLError, OSError, ValueError, *_OF_ANOTHER_SHAPE) as error:
        raise _unusable(f"kubeconfig {path} cannot be used", error) from error
    if not found.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    token = found.api_key.get("BearerToken")
    return Access(found.host, tls, found.ssl_ca_cert, token, found.tls_server_name, found.proxy, namespace)


def _unusable(what: str, why: object) -> ConfigError:
    return ConfigError(f"{what} ({one_line(str(why))}); set KUBECONFIG or --kubeconfig to a file that kubectl can use")

"""The credentials for the API server and its authority, which are replaced while the operator runs.

A pod's token lives for an hour, a certificate authority for years.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from ssl import SSLContext

from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import Configuration
from yaml import YAMLError

from isvc_operator.errors import ConfigError

_OF_ANOTHER_SHAPE = (TypeError, AttributeError, KeyError)  # what the library raises for a file that is no kubeconfig


@dataclass(frozen=True)
class Credentials:
    """Those of ``kubeconfig``, or else of the pod's service account.

    The library reads the token of a service account again every minute, by the wall clock.
    """

    kubeconfig: str | None
    configuration: Configuration = field(default_factory=Configuration)

    @property
    def token(self) -> str | None:
        """The token that requests have now; None if they have another form of credentials."""
        token: str | None = self.configuration.api_key.get("BearerToken")
        return token

    async def load(self) -> None:
        """Read them from their file; raises ConfigError."""
        try:
            if self.kubeconfig:
                await kubernetes_config.load_kube_config(
                    config_file=self.kubeconfig, client_configuration=self.configuration
                )
            else:
                kubernetes_config.load_incluster_config(client_configuration=self.configuration)
        except (kubernetes_config.ConfigException, YAMLError, OSError, *_OF_ANOTHER_SHAPE) as error:
            where = (
                f"kubeconfig {self.kubeconfig} cannot be used"
                if self.kubeconfig
                else "no kubeconfig is set, and this is not a pod"
            )
            raise ConfigError(
                f"{where} ({error}); set KUBECONFIG or --kubeconfig to a file that kubectl can use"
            ) from error

    async def replaced(self, refused: str | None) -> bool:
        """Whether there is another token than the one that the API server has refused; looks for it once."""
        if self.token == refused:
            with suppress(ConfigError):  # the file is being replaced; the next refusal looks again
                await self.load()
        return self.token != refused

    async def trust_again(self, context: SSLContext) -> None:
        """Let connections trust the certificate authority that the file names now, too: it may be another one."""
        with suppress(ConfigError, OSError):  # it is being replaced; the next refused connection looks again
            await self.load()
            configuration = self.configuration
            if configuration.ssl_ca_cert or configuration.ca_cert_data:
                context.load_verify_locations(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)

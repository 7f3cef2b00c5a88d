"""The certificate of a server. It is read again when its files change, so that a renewed Secret needs no restart."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from data_plane.file_state import file_state

log = logging.getLogger(__name__)

# For clients that ask for a protocol in the handshake.
_HTTP = "http/1.1"
_GRPC = "h2"


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of a certificate and its key, which may be in the certificate's file; ``grpc``: it is for gRPC as well."""

    certificate: str
    key: str | None = None
    grpc: bool = False

    @classmethod
    def of_secret(cls, folder: Path | None) -> Tls | None:
        """Return the paths in the folder of a mounted Secret of type kubernetes.io/tls, for every port."""
        return cls(str(folder / "tls.crt"), str(folder / "tls.key"), grpc=True) if folder else None

    def __str__(self) -> str:
        return f"the certificate {self.certificate} and the key {self.key or 'in the same file'}"


class Certificate:
    """A certificate that is in use. `context`, and `grpc_context`, give new connections the current one.

    Making one raises OSError for files that cannot be used.
    """

    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        self.context = _context(_HTTP)
        self.grpc_context = _context(_GRPC)
        self._state = self._stat()
        self._load()

    def refresh(self) -> None:
        """Load the files again if they have changed; while they cannot be used, the certificate before is kept."""
        if (state := self._stat()) == self._state:
            return
        self._state = state
        try:
            self._load()
        except OSError as error:
            log.warning("%s have changed and cannot be used: %s; the one before is kept", self.tls, error)
        else:
            log.info("new connections get %s as they are now", self.tls)

    def _load(self) -> None:
        certificate, key = self.tls.certificate, self.tls.key or self.tls.certificate
        # A certificate that does not fit to its key would leave the context without one.
        for context in (_context(_HTTP), self.context, self.grpc_context):
            context.load_cert_chain(certificate, key, password="")

    def _stat(self) -> tuple[object, ...]:
        return tuple(map(file_state, filter(None, (self.tls.certificate, self.tls.key))))


def _context(protocol: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols([protocol])
    return context

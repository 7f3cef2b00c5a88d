"""TLS of a client, with the certificates that it trusts."""

from __future__ import annotations

import ssl


def trusting(authority: str | None = None, *, verify: bool = True) -> ssl.SSLContext:
    """Return settings that trust the PEM certificates in a file, or else the system's; raises OSError.

    Without ``verify``, any certificate is accepted.

    Python 3.13 also refuses a certificate without an Authority Key Identifier, and an authority without a Subject Key
    Identifier or a key usage; private ones often lack them. Programs in Go accept them, and so does this; chain, dates
    and host are checked as ever.
    """
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

"""TLS of a client, with the certificates that it trusts."""

from __future__ import annotations

import ssl


def trusting(authority: str | None = None) -> ssl.SSLContext:
    """Return settings that trust the PEM certificates in a file, or else the system's; raises OSError.

    Python 3.13 also refuses a certificate without an Authority Key Identifier, and an authority without a Subject Key
    Identifier or a key usage; those of older clusters (EKS, MicroK8s) lack them. kubectl accepts them, and so does
    this; chain, dates and host are checked as ever.
    """
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context

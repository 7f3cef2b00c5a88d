"""The condition of a certificate that clients refuse, or soon will; pods serve with it all the same. Pure."""

from __future__ import annotations

from datetime import datetime

from isvc_operator.api.inference_service import Condition
from isvc_operator.api.names import CERTIFICATE_EXPIRED, CERTIFICATE_EXPIRES, CERTIFICATE_VALID, HOSTS_MISSING
from isvc_operator.observe.conditions import condition
from isvc_operator.resolve.tls import ServingTls

_RENEW = "renew it: the pods read the new one without a restart"


def certificate_valid(tls: ServingTls | None, now: str) -> list[Condition]:
    """Return the condition at ``now`` (RFC 3339); none for a certificate that needs no attention."""
    if tls is None or tls.certificate is None:
        return []
    at, ends = datetime.fromisoformat(now), tls.certificate.ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    which = f"the certificate of secret {tls.secret}"
    if at >= tls.certificate.ends:
        return [_invalid(CERTIFICATE_EXPIRED, f"clients refuse {which} since {ends}; {_RENEW}")]
    if tls.certificate.expires_soon(at):
        return [_invalid(CERTIFICATE_EXPIRES, f"clients will refuse {which} from {ends} on; {_RENEW}")]
    if tls.missing:
        names = ", ".join(tls.missing)
        return [_invalid(HOSTS_MISSING, f"{which} is not for {names}; add these names to it")]
    return []


def _invalid(reason: str, message: str) -> Condition:
    return condition(CERTIFICATE_VALID, False, reason, message)

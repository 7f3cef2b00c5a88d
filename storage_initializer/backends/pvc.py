"""``pvc://CLAIM[/PATH]``: a claim that is mounted, read-only, at ``PVC_ROOT/CLAIM``."""

from __future__ import annotations

from storage_initializer.backends.local import LocalSource, open_folder
from storage_initializer.errors import ClaimNotMountedError
from storage_initializer.plan import Plan, Transfer


def open_source(transfer: Transfer, plan: Plan) -> LocalSource:
    """Open a claim. Links may lead anywhere inside it: a folder of links to a folder of blobs beside it is common."""
    uri = transfer.source
    claim = plan.pvc_root / uri.authority
    if not claim.is_dir():
        raise ClaimNotMountedError(
            f"claim {uri.authority} is not mounted at {claim}; mount it there, or set --pvc-root to where it is"
        )
    return open_folder(claim / uri.path.lstrip("/"), boundary=claim, destination=transfer.destination)

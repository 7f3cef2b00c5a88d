"""Whether the cluster has image volumes. An API server without them leaves them out of Deployments silently."""

from __future__ import annotations

from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import RequestRefused
from isvc_operator.kube.nesting import decode
from isvc_operator.manifests import Manifest

_UNPROCESSABLE = 422


async def check_image_volumes(api: KubeApi, manifest: Manifest) -> None:
    """Raise RequestRefused if the API server would leave out an image volume: the server would start without a model.

    Only a manifest with such volumes costs a request, which stores nothing.
    """
    if not (wanted := _image_volumes(manifest)):
        return
    stored = decode(await api.send(requests.apply(manifest, force=True, dry_run=True)))
    if missing := wanted - _image_volumes(stored):
        raise RequestRefused(
            _UNPROCESSABLE,
            f"the cluster has no image volumes, and leaves out {', '.join(sorted(missing))}; write oci+modelcar:// (or "
            "ociModelMode of storageInitializer), or turn on Kubernetes' feature gate ImageVolume",
        )


def _image_volumes(manifest: Manifest) -> set[str]:
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return {volume["name"] for volume in pod.get("volumes") or () if "image" in volume}

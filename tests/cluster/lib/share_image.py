"""Give containerd an image that buildah has built, without copying its layers.

An export and an import would write the 6 GB of torch three times. Both programs keep a layer as a plain folder, so on
one file system the node's copy can be hard links: containers only read a layer's files, and removing the image on one
side leaves the other whole.

usage: share_image.py IMAGE STORE ctr [CTR OPTION...]    STORE is the builder's folder with the overlay driver's data
"""

import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]


def main(image: str, store: str, *ctr: str) -> None:
    root = Path(store)
    record = find_image(root, image)
    chains = [""]
    for diff_id, folder in layers(root, record["layer"]):
        parent = chains[-1]
        chains.append(chain_id(parent, diff_id))
        if not succeeds(*ctr, "snapshots", "info", chains[-1]):
            share_layer(ctr, folder, chains[-1], parent)
    run(*ctr, "images", "import", "--base-name", image.rpartition(":")[0], "-", stdin=archive(root, record, image))
    # From here on the image holds its snapshots; removing it lets them be collected.
    for chain in chains[1:]:
        run(*ctr, "snapshots", "label", chain, "containerd.io/gc.root=")


def find_image(root: Path, name: str) -> Record:
    images: list[Record] = json.loads((root / "overlay-images/images.json").read_text())
    return next(image for image in images if name in (image.get("names") or ()))


def layers(root: Path, top: str) -> Iterator[tuple[str, Path]]:
    """Digest and folder of each layer, the lowest first."""
    known = {layer["id"]: layer for layer in json.loads((root / "overlay-layers/layers.json").read_text())}
    stack = []
    while top:
        stack.append((known[top]["diff-digest"], root / "overlay" / top / "diff"))
        top = known[top].get("parent", "")
    yield from reversed(stack)


def chain_id(parent: str, diff_id: str) -> str:
    """The name that containerd gives a layer on top of others."""
    return digest(f"{parent} {diff_id}".encode()) if parent else diff_id


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def share_layer(ctr: tuple[str, ...], folder: Path, chain: str, parent: str) -> None:
    key = f"share-{chain}"
    mount = run(*ctr, "snapshots", "prepare", "--mounts", key, *([parent] if parent else [])).decode()
    try:
        run("cp", "--archive", "--link", f"{folder}/.", snapshot_folder(mount))
        run(*ctr, "snapshots", "commit", chain, key)
    except subprocess.CalledProcessError:
        run(*ctr, "snapshots", "remove", key)
        raise


def snapshot_folder(mount: str) -> str:
    """Where a snapshot keeps its own files: the upper folder of an overlay, or the one that a bind mount shows."""
    described = json.loads(mount)[0]
    upper = re.search(r"upperdir=([^,]+)", " ".join(described["Options"]).replace(" ", ","))
    return upper[1] if upper else str(described["Source"])


def archive(root: Path, record: Record, image: str) -> bytes:
    """An OCI archive of the manifest and the configuration alone."""
    manifest = big_data(root, record, "manifest")
    config_digest = json.loads(manifest)["config"]["digest"]
    index = {"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(manifest), "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": image.rpartition(":")[2]},
    }]}  # fmt: skip
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps(index).encode(),
        f"blobs/{digest(manifest)}".replace(":", "/"): manifest,
        f"blobs/{config_digest}".replace(":", "/"): big_data(root, record, config_digest),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def big_data(root: Path, record: Record, name: str) -> bytes:
    """The store writes names that are not plain file names in base64."""
    file = name if name.isalnum() else "=" + base64.b64encode(name.encode()).decode()
    return (root / "overlay-images" / str(record["id"]) / file).read_bytes()


def run(*command: str, stdin: bytes = b"") -> bytes:
    output: bytes = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True).stdout
    return output


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main(*sys.argv[1:])

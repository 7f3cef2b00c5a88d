"""S3 by versitygw: it checks every request's signature, and knows users by their keys."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.object_stores.programs import listening, program
from tests.support.object_stores.tls import Certificate
from tests.support.ports import free_port

REGION = "eu-test-1"


@dataclass(frozen=True)
class Keys:
    """How a user signs."""

    access: str
    secret: str


ROOT = Keys("root-key", "root-secret")
OWNER = Keys("owner-key", "owner-secret")
STRANGER = Keys("stranger-key", "stranger-secret")  # known, and allowed nothing


@dataclass(frozen=True)
class S3Server:
    """A running gateway; each folder in ``root`` is a bucket, each file in it an object."""

    url: str
    root: Path

    def create_bucket(self, name: str, *, public: bool = False) -> Path:
        """The bucket's folder. ``OWNER`` may read and write it; anyone may read a public one."""
        self._administer("create-bucket", "--owner", OWNER.access, "--bucket", name)
        folder = self.root / name
        if public:
            os.setxattr(folder, "user.policy", _READ_BY_ALL.replace("BUCKET", name).encode())
        return folder

    def create_user(self, keys: Keys) -> None:
        self._administer("create-user", "--access", keys.access, "--secret", keys.secret, "--role", "user")

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Straight to the disk, with the entity tag that an upload would have left; a new file, never a changed one."""
        path = self.root / bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        set_etag(path, hashlib.md5(content).hexdigest())

    def put_tree(self, bucket: str, prefix: str, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            self.put(bucket, f"{prefix}/{name}" if prefix else name, content)

    def _administer(self, *arguments: str) -> None:
        command = [program("versitygw"), "admin", "--access", ROOT.access, "--secret", ROOT.secret]
        command += ["--region", REGION, "--endpoint-url", self.url, "--allow-insecure", *arguments]
        subprocess.run(command, check=True, capture_output=True)


def set_etag(path: Path, digest: str) -> None:
    """Where versitygw keeps it."""
    os.setxattr(path, "user.etag", f'"{digest}"'.encode())


@contextlib.contextmanager
def running(home: Path, certificate: Certificate | None = None) -> Iterator[S3Server]:
    """An empty S3 with two users; over TLS if it is given a certificate."""
    root, accounts, port = home / "buckets", home / "accounts", free_port()
    for folder in (root, accounts):
        folder.mkdir(parents=True)
    command = [program("versitygw"), "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", "--keep-alive"]
    if certificate:
        command += ["--cert", str(certificate.chain), "--key", str(certificate.key)]
    command += ["--iam-dir", str(accounts), "--iam-cache-disable", "posix", str(root)]
    keys = {"ROOT_ACCESS_KEY": ROOT.access, "ROOT_SECRET_KEY": ROOT.secret}
    with listening(command, port, home / "log", keys):
        server = S3Server(f"{'https' if certificate else 'http'}://127.0.0.1:{port}", root)
        server.create_user(OWNER)
        server.create_user(STRANGER)
        yield server


_READ_BY_ALL = """{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
"Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::BUCKET", "arn:aws:s3:::BUCKET/*"]}]}"""

"""Which of the checksums that S3 tells is one of the whole object."""

from __future__ import annotations

from base64 import b64encode
from hashlib import md5
from pathlib import PurePosixPath

import pytest

from storage_initializer.backends.s3 import reported_checksum
from storage_initializer.errors import UnexpectedResponseError
from storage_initializer.limits import MAX_MD5
from storage_initializer.sources import Checksum, SourceFile

PLAIN = md5(b"x", usedforsecurity=False).hexdigest()
PARTS = f"{PLAIN}-2"
CRC32 = {"x-amz-checksum-crc32": b64encode(bytes.fromhex("8316dc8c")).decode()}
TOLD = Checksum("crc32", "8316dc8c")


def checksum(etag: str, headers: dict[str, str]) -> Checksum | None:
    return reported_checksum(SourceFile(PurePosixPath("weights"), 1, version=f'"{etag}"'), headers)


@pytest.mark.parametrize(
    ("etag", "headers", "told"),
    [
        (PLAIN, CRC32, TOLD),
        (PLAIN, {**CRC32, "x-amz-checksum-type": "FULL_OBJECT"}, TOLD),
        (PARTS, {**CRC32, "x-amz-checksum-type": "FULL_OBJECT"}, TOLD),
        (PARTS, {**CRC32, "x-amz-checksum-type": "COMPOSITE"}, None),
        (PARTS, CRC32, None),
        (PARTS, {"x-amz-checksum-crc32": f"{CRC32['x-amz-checksum-crc32']}-2"}, None),
        (PLAIN, {**CRC32, "x-amz-checksum-type": "COMPOSITE"}, Checksum("md5", PLAIN)),
        (PLAIN, {}, Checksum("md5", PLAIN)),
        (PARTS, {}, None),
        (PLAIN, {"x-amz-server-side-encryption": "aws:kms"}, None),
    ],
)
def test_only_one_of_the_whole_object_counts(etag: str, headers: dict[str, str], told: Checksum | None) -> None:
    assert checksum(etag, headers) == told


def test_one_that_is_none_is_an_answer_that_makes_no_sense() -> None:
    with pytest.raises(UnexpectedResponseError, match="the store reports the checksum '###', which is no base64"):
        checksum(PLAIN, {"x-amz-checksum-crc32": "###"})


def test_the_etag_of_a_large_object_is_not_compared() -> None:
    def told(size: int) -> Checksum | None:
        return reported_checksum(SourceFile(PurePosixPath("weights"), size, version=f'"{PLAIN}"'), {})

    assert (told(MAX_MD5), told(MAX_MD5 + 1)) == (Checksum("md5", PLAIN), None)

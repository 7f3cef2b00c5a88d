"""The generated modules are those of the protos."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import grpc_messages


@pytest.mark.process
@pytest.mark.parametrize("proto", grpc_messages.PROTOS, ids=lambda proto: proto.stem)
def test_it_is_up_to_date(proto: Path) -> None:
    generated = grpc_messages.generate(proto)

    assert {name: (proto.parent / name).read_text() for name in generated} == generated

"""The generated modules are those of the protos."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_plane.protocol.v2 import generate


@pytest.mark.process
@pytest.mark.parametrize("proto", generate.PROTOS, ids=lambda proto: proto.stem)
def test_it_is_up_to_date(proto: Path) -> None:
    generated = generate.generate(proto)

    assert {name: (proto.parent / name).read_text() for name in generated} == generated

"""Those who do not contain the servers' packages have the servers' datatypes."""

from __future__ import annotations

from data_plane.protocol.v2.datatypes import DATATYPES
from isvc.inference.sample import tensors_of
from model_archive import signatures, traced
from storage_initializer import settings


def test_a_sample_has_a_value_for_each_datatype() -> None:
    inputs = [{"name": datatype, "datatype": datatype, "shape": [1]} for datatype in DATATYPES]

    assert [tensor["datatype"] for tensor in tensors_of({"inputs": inputs}, len(inputs))] == [*DATATYPES]


def test_what_is_read_of_files_has_each_datatype_that_they_can_have() -> None:
    rows = DATATYPES.values()

    assert {*settings.DATATYPES} == {row.name for row in rows}
    assert {*signatures._DATATYPES.values()} == {row.name for row in rows if row.onnx}
    assert {*traced._DATATYPES.values()} == {row.name for row in rows if row.torch}

"""`isvc` writes samples of requests for every datatype that the servers take; it does not contain their packages."""

from __future__ import annotations

from data_plane.protocol.v2.datatypes import DATATYPES
from isvc.inference.sample import tensors_of


def test_a_sample_has_a_value_for_each_datatype() -> None:
    inputs = [{"name": datatype, "datatype": datatype, "shape": [1]} for datatype in DATATYPES]

    assert [tensor["datatype"] for tensor in tensors_of({"inputs": inputs}, len(inputs))] == [*DATATYPES]

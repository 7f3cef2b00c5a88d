"""Our module of the Open Inference Protocol says the same on the wire as that of KServe's SDK."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import Descriptor
from kserve.protocol.grpc import grpc_predict_v2_pb2 as kserve_pb

from data_plane.protocol.v2 import open_inference_pb2 as pb


@pytest.mark.parametrize("name", sorted(kserve_pb.DESCRIPTOR.message_types_by_name))
def test_kserves_fields_have_kserves_numbers(name: str) -> None:
    ours = _fields(pb.DESCRIPTOR.message_types_by_name[name])
    theirs = _fields(kserve_pb.DESCRIPTOR.message_types_by_name[name])
    assert theirs.items() <= ours.items()


def test_kserves_methods_are_there() -> None:
    def methods(module: object) -> dict[str, tuple[str, str]]:
        service = module.DESCRIPTOR.services_by_name["GRPCInferenceService"]  # type: ignore[attr-defined]
        return {one.name: (one.input_type.full_name, one.output_type.full_name) for one in service.methods}

    assert methods(kserve_pb).items() <= methods(pb).items()


def _fields(message: Descriptor) -> dict[tuple[str, ...], tuple[int, int, bool]]:
    """Each field and nested field by its path: its number, its type, whether it repeats."""
    found = {}
    for field in message.fields:
        found[(field.name,)] = (field.number, field.type, field.is_repeated)
        if field.message_type is not None:
            found |= {(field.name, *path): value for path, value in _fields(field.message_type).items()}
    return found

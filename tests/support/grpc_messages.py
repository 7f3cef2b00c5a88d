"""Generate the gRPC messages and their types from the .proto files: python -m tests.support.grpc_messages

The Python modules that protoc generates are not suitable. They need a protobuf at least as new as protoc, and register
their messages in the global pool, where KServe's SDK registers others of the same names: one process could not import
both.
"""

from __future__ import annotations

import pprint
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

_PROTOCOL = Path(__file__).parents[2] / "runtime-images/common/src/data_plane/protocol"
PROTOS = (_PROTOCOL / "v2/open_inference.proto", _PROTOCOL / "torchserve/inference_apis.proto")
_HEADER = """\
# ruff: noqa
# fmt: off
# mypy: ignore-errors
"""
_MODULE = '''\
"""Generated from {proto} by `python -m tests.support.grpc_messages`; not to be edited."""

from google.protobuf import descriptor_pool, message_factory

_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile{descriptor}
DESCRIPTOR = _pool.FindFileByName("{proto}")

{messages}
'''
_MESSAGE = '{name} = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["{name}"])'


def generate(proto: Path) -> dict[str, str]:
    """Return the texts of the generated files by name; needs grpcio-tools."""
    with tempfile.TemporaryDirectory() as folder:
        descriptors, types = Path(folder, "descriptors"), Path(folder, f"{proto.stem}_pb2.pyi")
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={proto.parent}"),
                *(f"--descriptor_set_out={descriptors}", f"--pyi_out={folder}", proto.name),
            ],
            check=True,
        )
        (file,) = FileDescriptorSet.FromString(descriptors.read_bytes()).file
        module = _MODULE.format(
            proto=proto.name,
            descriptor=pprint.pformat(file.SerializeToString(deterministic=True), width=110),
            messages="\n".join(_MESSAGE.format(name=message.name) for message in file.message_type),
        )
        return {f"{proto.stem}_pb2.py": _HEADER + module, types.name: _HEADER + types.read_text()}


if __name__ == "__main__":
    for proto in PROTOS:
        for name, text in generate(proto).items():
            (proto.parent / name).write_text(text)

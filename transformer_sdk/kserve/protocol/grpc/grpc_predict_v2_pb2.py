"""The messages of gRPC under KServe's module name. They are of a descriptor pool of their own (see the generator)."""

from data_plane.protocol.v2.open_inference_pb2 import *  # noqa: F403

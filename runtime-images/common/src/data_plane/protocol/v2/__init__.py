"""The Open Inference Protocol (KServe's "v2"): one set of dataclasses, with JSON, binary and protobuf forms."""

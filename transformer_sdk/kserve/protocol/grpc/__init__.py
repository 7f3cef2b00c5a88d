"""`kserve.protocol.grpc`."""

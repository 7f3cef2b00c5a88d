# ruff: noqa
# fmt: off
# mypy: ignore-errors
"""Generated from inference_apis.proto by `python -m tests.support.grpc_messages`; not to be edited."""

from google.protobuf import descriptor_pool, message_factory

_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(b'\n\x14inference_apis.proto\x12 org.pytorch.serve.grpc.inference"\x07\n\x05Empty"\x9f\x02\n\x12Prediction'
 b'sRequest\x12\x1d\n\nmodel_name\x18\x01 \x01(\tR\tmodelName\x12#\n\rmodel_version\x18\x02 \x01(\tR\x0cmode'
 b'lVersion\x12U\n\x05input\x18\x03 \x03(\x0b2?.org.pytorch.serve.grpc.inference.PredictionsRequest.InputE'
 b'ntryR\x05input\x12$\n\x0bsequence_id\x18\x04 \x01(\tH\x00R\nsequenceId\x88\x01\x01\x1a8\n\nInputEntry\x12'
 b'\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12\x14\n\x05value\x18\x02 \x01(\x0cR\x05value:\x028\x01B\x0e\n\x0c_'
 b'sequence_id"\xbc\x01\n\x12PredictionResponse\x12\x1e\n\nprediction\x18\x01 \x01(\x0cR\nprediction\x12$'
 b'\n\x0bsequence_id\x18\x02 \x01(\tH\x00R\nsequenceId\x88\x01\x01\x12E\n\x06status\x18\x03 \x01(\x0b2(.org.p'
 b'ytorch.serve.grpc.inference.StatusH\x01R\x06status\x88\x01\x01B\x0e\n\x0c_sequence_idB\t\n\x07_status"6'
 b'\n\x06Status\x12\x12\n\x04code\x18\x01 \x01(\x05R\x04code\x12\x18\n\x07message\x18\x02 \x01(\tR\x07messa'
 b'ge"2\n\x18TorchServeHealthResponse\x12\x16\n\x06health\x18\x01 \x01(\tR\x06health2\x89\x04\n\x14Inference'
 b"APIsService\x12k\n\x04Ping\x12'.org.pytorch.serve.grpc.inference.Empty\x1a:.org.pytorch.serve.grpc.infere"
 b'nce.TorchServeHealthResponse\x12y\n\x0bPredictions\x124.org.pytorch.serve.grpc.inference.PredictionsReques'
 b't\x1a4.org.pytorch.serve.grpc.inference.PredictionResponse\x12\x81\x01\n\x11StreamPredictions\x124.org.'
 b'pytorch.serve.grpc.inference.PredictionsRequest\x1a4.org.pytorch.serve.grpc.inference.PredictionRespons'
 b'e0\x01\x12\x84\x01\n\x12StreamPredictions2\x124.org.pytorch.serve.grpc.inference.PredictionsRequest\x1a4.o'
 b'rg.pytorch.serve.grpc.inference.PredictionResponse(\x010\x01b\x06proto3')
DESCRIPTOR = _pool.FindFileByName("inference_apis.proto")

Empty = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["Empty"])
PredictionsRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["PredictionsRequest"])
PredictionResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["PredictionResponse"])
Status = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["Status"])
TorchServeHealthResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["TorchServeHealthResponse"])

# ruff: noqa
# fmt: off
# mypy: ignore-errors
"""Generated from open_inference.proto by `python -m tests.support.grpc_messages`; not to be edited."""

from google.protobuf import descriptor_pool, message_factory

_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(b'\n\x14open_inference.proto\x12\tinference"\x13\n\x11ServerLiveRequest"(\n\x12ServerLiveResponse'
 b'\x12\x12\n\x04live\x18\x01 \x01(\x08R\x04live"\x14\n\x12ServerReadyRequest"+\n\x13ServerReadyRespons'
 b'e\x12\x14\n\x05ready\x18\x01 \x01(\x08R\x05ready"A\n\x11ModelReadyRequest\x12\x12\n\x04name\x18\x01 \x01'
 b'(\tR\x04name\x12\x18\n\x07version\x18\x02 \x01(\tR\x07version"*\n\x12ModelReadyResponse\x12\x14\n\x05read'
 b'y\x18\x01 \x01(\x08R\x05ready"\x17\n\x15ServerMetadataRequest"f\n\x16ServerMetadataResponse\x12\x12\n'
 b'\x04name\x18\x01 \x01(\tR\x04name\x12\x18\n\x07version\x18\x02 \x01(\tR\x07version\x12\x1e\n\nextension'
 b's\x18\x03 \x03(\tR\nextensions"D\n\x14ModelMetadataRequest\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12'
 b'\x18\n\x07version\x18\x02 \x01(\tR\x07version"\xcf\x02\n\x15ModelMetadataResponse\x12\x12\n\x04name\x18'
 b'\x01 \x01(\tR\x04name\x12\x1a\n\x08versions\x18\x02 \x03(\tR\x08versions\x12\x1a\n\x08platform\x18'
 b'\x03 \x01(\tR\x08platform\x12G\n\x06inputs\x18\x04 \x03(\x0b2/.inference.ModelMetadataResponse.TensorMeta'
 b'dataR\x06inputs\x12I\n\x07outputs\x18\x05 \x03(\x0b2/.inference.ModelMetadataResponse.TensorMetadataR\x07'
 b'outputs\x1aV\n\x0eTensorMetadata\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x1a\n\x08datatype\x18\x02 '
 b'\x01(\tR\x08datatype\x12\x14\n\x05shape\x18\x03 \x03(\x03R\x05shape"\x9d\x08\n\x11ModelInferReques'
 b't\x12\x1d\n\nmodel_name\x18\x01 \x01(\tR\tmodelName\x12#\n\rmodel_version\x18\x02 \x01(\tR\x0cmodelVersio'
 b'n\x12\x0e\n\x02id\x18\x03 \x01(\tR\x02id\x12L\n\nparameters\x18\x04 \x03(\x0b2,.inference.ModelInferRequ'
 b'est.ParametersEntryR\nparameters\x12E\n\x06inputs\x18\x05 \x03(\x0b2-.inference.ModelInferRequest.InferI'
 b'nputTensorR\x06inputs\x12Q\n\x07outputs\x18\x06 \x03(\x0b27.inference.ModelInferRequest.InferRequestedOutp'
 b'utTensorR\x07outputs\x12,\n\x12raw_input_contents\x18\x07 \x03(\x0cR\x10rawInputContents\x1a\xcd\x02\n\x10'
 b'InferInputTensor\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x1a\n\x08datatype\x18\x02 \x01(\tR\x08data'
 b'type\x12\x14\n\x05shape\x18\x03 \x03(\x03R\x05shape\x12]\n\nparameters\x18\x04 \x03(\x0b2=.inference.Model'
 b'InferRequest.InferInputTensor.ParametersEntryR\nparameters\x12:\n\x08contents\x18\x05 \x01(\x0b2\x1e.in'
 b'ference.InferTensorContentsR\x08contents\x1aX\n\x0fParametersEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03k'
 b'ey\x12/\n\x05value\x18\x02 \x01(\x0b2\x19.inference.InferParameterR\x05value:\x028\x01\x1a\xf3\x01\n\x1a'
 b'InferRequestedOutputTensor\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12g\n\nparameters\x18\x02 \x03'
 b'(\x0b2G.inference.ModelInferRequest.InferRequestedOutputTensor.ParametersEntryR\nparameters\x1aX\n\x0fP'
 b'arametersEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12/\n\x05value\x18\x02 \x01(\x0b2\x19.inference.'
 b'InferParameterR\x05value:\x028\x01\x1aX\n\x0fParametersEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12/'
 b'\n\x05value\x18\x02 \x01(\x0b2\x19.inference.InferParameterR\x05value:\x028\x01"\xdf\x05\n\x12ModelInferRe'
 b'sponse\x12\x1d\n\nmodel_name\x18\x01 \x01(\tR\tmodelName\x12#\n\rmodel_version\x18\x02 \x01(\tR\x0cmodelV'
 b'ersion\x12\x0e\n\x02id\x18\x03 \x01(\tR\x02id\x12M\n\nparameters\x18\x04 \x03(\x0b2-.inference.ModelInfe'
 b'rResponse.ParametersEntryR\nparameters\x12I\n\x07outputs\x18\x05 \x03(\x0b2/.inference.ModelInferRespons'
 b'e.InferOutputTensorR\x07outputs\x12.\n\x13raw_output_contents\x18\x06 \x03(\x0cR\x11rawOutputContents'
 b'\x1a\xd0\x02\n\x11InferOutputTensor\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x1a\n\x08dataty'
 b'pe\x18\x02 \x01(\tR\x08datatype\x12\x14\n\x05shape\x18\x03 \x03(\x03R\x05shape\x12_\n\nparameters\x18\x04'
 b' \x03(\x0b2?.inference.ModelInferResponse.InferOutputTensor.ParametersEntryR\nparameters\x12:\n\x08content'
 b's\x18\x05 \x01(\x0b2\x1e.inference.InferTensorContentsR\x08contents\x1aX\n\x0fParametersEntry'
 b'\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12/\n\x05value\x18\x02 \x01(\x0b2\x19.inference.InferParameter'
 b'R\x05value:\x028\x01\x1aX\n\x0fParametersEntry\x12\x10\n\x03key\x18\x01 \x01(\tR\x03key\x12/\n\x05valu'
 b'e\x18\x02 \x01(\x0b2\x19.inference.InferParameterR\x05value:\x028\x01"\x85\x01\n\x18ModelStreamInferRespon'
 b'se\x12#\n\rerror_message\x18\x01 \x01(\tR\x0cerrorMessage\x12D\n\x0einfer_response\x18\x02 \x01(\x0b2'
 b'\x1d.inference.ModelInferResponseR\rinferResponse"\xd7\x01\n\x0eInferParameter\x12\x1f\n\nbool_par'
 b'am\x18\x01 \x01(\x08H\x00R\tboolParam\x12!\n\x0bint64_param\x18\x02 \x01(\x03H\x00R\nint64Param\x12#\n\x0c'
 b'string_param\x18\x03 \x01(\tH\x00R\x0bstringParam\x12#\n\x0cdouble_param\x18\x04 \x01(\x01H\x00R\x0bdoubl'
 b'eParam\x12#\n\x0cuint64_param\x18\x05 \x01(\x04H\x00R\x0buint64ParamB\x12\n\x10parameter_choice"'
 b'\xc3\x02\n\x13InferTensorContents\x12#\n\rbool_contents\x18\x01 \x03(\x08R\x0cboolContents\x12!\n\x0cint_'
 b'contents\x18\x02 \x03(\x05R\x0bintContents\x12%\n\x0eint64_contents\x18\x03 \x03(\x03R\rint64Contents\x12#'
 b"\n\ruint_contents\x18\x04 \x03(\rR\x0cuintContents\x12'\n\x0fuint64_contents\x18\x05 \x03(\x04R\x0euint64"
 b'Contents\x12#\n\rfp32_contents\x18\x06 \x03(\x02R\x0cfp32Contents\x12#\n\rfp64_contents\x18\x07 \x03(\x01'
 b'R\x0cfp64Contents\x12%\n\x0ebytes_contents\x18\x08 \x03(\x0cR\rbytesContents"W\n\x16RepositoryIndexRequ'
 b"est\x12'\n\x0frepository_name\x18\x01 \x01(\tR\x0erepositoryName\x12\x14\n\x05ready\x18\x02 \x01(\x08R"
 b'\x05ready"\xca\x01\n\x17RepositoryIndexResponse\x12E\n\x06models\x18\x01 \x03(\x0b2-.inference.Repositor'
 b'yIndexResponse.ModelIndexR\x06models\x1ah\n\nModelIndex\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12'
 b'\x18\n\x07version\x18\x02 \x01(\tR\x07version\x12\x14\n\x05state\x18\x03 \x01(\tR\x05state\x12\x16\n\x06r'
 b'eason\x18\x04 \x01(\tR\x06reason"g\n\x1aRepositoryModelLoadRequest\x12\x1d\n\nmodel_name\x18\x01 \x01('
 b'\tR\tmodelName\x12*\n\x11triton_model_name\x18\x02 \x01(\tR\x0ftritonModelName"X\n\x1bRepositoryModelLoadR'
 b'esponse\x12\x1d\n\nmodel_name\x18\x01 \x01(\tR\tmodelName\x12\x1a\n\x08isLoaded\x18\x02 \x01(\x08R\x08is'
 b'Loaded"i\n\x1cRepositoryModelUnloadRequest\x12\x1d\n\nmodel_name\x18\x01 \x01(\tR\tmodelName\x12*\n\x11tri'
 b'ton_model_name\x18\x02 \x01(\tR\x0ftritonModelName"^\n\x1dRepositoryModelUnloadResponse\x12\x1d\n\nmodel_'
 b'name\x18\x01 \x01(\tR\tmodelName\x12\x1e\n\nisUnloaded\x18\x02 \x01(\x08R\nisUnloaded2\xf7\x06\n\x14GRPCIn'
 b'ferenceService\x12I\n\nServerLive\x12\x1c.inference.ServerLiveRequest\x1a\x1d.inference.ServerLiveRespons'
 b'e\x12L\n\x0bServerReady\x12\x1d.inference.ServerReadyRequest\x1a\x1e.inference.ServerReadyResponse\x12'
 b'I\n\nModelReady\x12\x1c.inference.ModelReadyRequest\x1a\x1d.inference.ModelReadyResponse\x12U\n\x0eServer'
 b'Metadata\x12 .inference.ServerMetadataRequest\x1a!.inference.ServerMetadataResponse\x12R\n\rModelMetada'
 b'ta\x12\x1f.inference.ModelMetadataRequest\x1a .inference.ModelMetadataResponse\x12I\n\nModelInfer\x12'
 b'\x1c.inference.ModelInferRequest\x1a\x1d.inference.ModelInferResponse\x12Y\n\x10ModelStreamInfer\x12\x1c.i'
 b'nference.ModelInferRequest\x1a#.inference.ModelStreamInferResponse(\x010\x01\x12X\n\x0fRepositoryInd'
 b'ex\x12!.inference.RepositoryIndexRequest\x1a".inference.RepositoryIndexResponse\x12d\n\x13RepositoryModel'
 b'Load\x12%.inference.RepositoryModelLoadRequest\x1a&.inference.RepositoryModelLoadResponse\x12j\n\x15Repos'
 b"itoryModelUnload\x12'.inference.RepositoryModelUnloadRequest\x1a(.inference.RepositoryModelUnloadResponseb"
 b'\x06proto3')
DESCRIPTOR = _pool.FindFileByName("open_inference.proto")

ServerLiveRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ServerLiveRequest"])
ServerLiveResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ServerLiveResponse"])
ServerReadyRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ServerReadyRequest"])
ServerReadyResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ServerReadyResponse"])
ModelReadyRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelReadyRequest"])
ModelReadyResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelReadyResponse"])
ServerMetadataRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ServerMetadataRequest"])
ServerMetadataResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ServerMetadataResponse"])
ModelMetadataRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelMetadataRequest"])
ModelMetadataResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelMetadataResponse"])
ModelInferRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelInferRequest"])
ModelInferResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelInferResponse"])
ModelStreamInferResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelStreamInferResponse"])
InferParameter = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["InferParameter"])
InferTensorContents = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["InferTensorContents"])
RepositoryIndexRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RepositoryIndexRequest"])
RepositoryIndexResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RepositoryIndexResponse"])
RepositoryModelLoadRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RepositoryModelLoadRequest"])
RepositoryModelLoadResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RepositoryModelLoadResponse"])
RepositoryModelUnloadRequest = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RepositoryModelUnloadRequest"])
RepositoryModelUnloadResponse = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RepositoryModelUnloadResponse"])

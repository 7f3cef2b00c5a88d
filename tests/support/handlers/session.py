"""BaseHandler loads `model.onnx` into an onnxruntime session; how to run it is the handler's to say."""

import torch
from ts.torch_handler.base_handler import BaseHandler


class Session(BaseHandler):
    def preprocess(self, data):
        return torch.as_tensor([row["body"] for row in data], dtype=torch.float32)

    def inference(self, data):
        return self.model.run(None, {"rows": data.numpy()})[0]

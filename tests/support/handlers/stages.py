"""BaseHandler's stages, each overridden: JSON rows in, labels out, with an explanation of its own."""

import torch
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import map_class_to_label


class Stages(BaseHandler):
    def preprocess(self, data):
        rows = [row.get("data") or row.get("body") if isinstance(row, dict) else row for row in data]
        return torch.as_tensor(rows, dtype=torch.float32, device=self.device)

    def postprocess(self, data):
        probabilities, classes = torch.topk(data.softmax(dim=1), 2, dim=1)
        return map_class_to_label(probabilities.tolist(), self.mapping, classes.tolist())

    def get_insights(self, tensor_data, _, target=0):
        return [{"target": target, "weights": row} for row in tensor_data.abs().tolist()]

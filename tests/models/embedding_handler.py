"""An archive's handler as people write it for a sentence transformer."""

import torch
from transformers import AutoModel, AutoTokenizer
from ts.torch_handler.base_handler import BaseHandler


class Embeddings(BaseHandler):
    def initialize(self, context):
        model_dir = context.system_properties["model_dir"]
        self.tokenizer = AutoTokenizer.from_pretrained(model_dir)
        self.model = AutoModel.from_pretrained(model_dir).eval()
        self.initialized = True

    def preprocess(self, requests):
        texts = [request.get("data") or request.get("body") for request in requests]
        texts = [text.decode() if isinstance(text, (bytes, bytearray)) else text for text in texts]
        return self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")

    def inference(self, tokens):
        with torch.inference_mode():
            hidden = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1)
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))

    def postprocess(self, embeddings):
        return embeddings.tolist()

"""Serves TorchServe archives, and bare TorchScript, torch.export and ONNX models, without Java."""

"""Runs a model that is one file, in this process: it computes arrays from arrays, synchronously.

loading      path → Engine; the one way in
formats      the format of a file, from its first bytes
errors       why a file is not served
config       model-config.yaml beside the file
engine       the base class of engines
signature    a model's inputs and outputs, and the checks of a request against them
torch_engine numpy ⇄ torch around any callable (TorchScript, torch.export, AOTInductor)
torchscript  `torch.jit` files, run the fastest way that gives the same results
arguments    what their `forward` takes, from the inputs of a request
exported     `torch.export` programs
aotinductor  AOTInductor packages
onnx         ONNX files, run by onnxruntime

torch and onnxruntime are imported only once a file of theirs is loaded.
"""

from mar_runtime.engines.engine import Engine
from mar_runtime.engines.errors import CannotLoad, GpuLost
from mar_runtime.engines.loading import load_engine

__all__ = ["CannotLoad", "Engine", "GpuLost", "load_engine"]

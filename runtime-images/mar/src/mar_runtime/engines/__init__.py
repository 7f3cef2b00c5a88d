"""Runs a model that is one file, in this process: arrays in, arrays out, synchronous.

loading      path → Engine; the one way in
formats      what a file is, told from its bytes, without loading it
errors       why a file is not served
config       model-config.yaml beside the file: what the file itself does not say
engine       what an engine is
signature    what a model takes and gives, and whether a request is that
torch_engine numpy ⇄ torch around any callable (TorchScript, torch.export, AOTInductor)
torchscript  `torch.jit` files, run the fastest way that gives the same results
exported     `torch.export` programs
aotinductor  AOTInductor packages
onnx         ONNX files, run by onnxruntime

torch and onnxruntime are imported only once a file of theirs is loaded.
"""

from mar_runtime.engines.engine import Engine
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.loading import load_engine

__all__ = ["CannotLoad", "Engine", "load_engine"]

"""An InferenceService becomes a running PyTorch endpoint on plain Kubernetes."""

__version__ = "0.2.0"

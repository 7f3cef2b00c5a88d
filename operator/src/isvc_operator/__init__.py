"""An InferenceService becomes a running PyTorch endpoint on plain Kubernetes."""

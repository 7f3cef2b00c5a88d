"""Adaptive micro-batching: requests that queue up while the model is busy go to it together."""

"""The HTTP surface: one module a protocol, all over the same registry of models."""

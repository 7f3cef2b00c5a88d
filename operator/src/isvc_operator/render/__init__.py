"""Turns a resolved service into the manifests of its children. Pure."""

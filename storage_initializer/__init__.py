"""Brings a model from where it is kept into the pod's own volume, whole and verified, or says why not."""

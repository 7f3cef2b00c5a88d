"""Decides what a service becomes: its runtime, its components with their pods and storage, its hosts. Pure."""

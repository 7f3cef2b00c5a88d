"""Observes a service: its rollout, its pods, its conditions, its status and its Events. Pure."""

"""Benchmarks: each suite measures on the real component and says whether its targets hold."""

"""The way to a predictor: one pool of kept connections, and what can go wrong on it."""

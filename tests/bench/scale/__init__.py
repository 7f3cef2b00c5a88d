"""What the suites `scale` and `soak` share: a cluster whose pods exist in the API server only."""

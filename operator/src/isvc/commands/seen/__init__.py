"""What ``isvc status``, ``logs`` and ``diagnose`` read of a cluster, and the lines that they print."""

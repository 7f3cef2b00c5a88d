"""``isvc run``: the same resolve and render as on a cluster, with the rendered pods as processes on this machine."""

"""The laptop: the same resolve and render as on a cluster, with the rendered pods executed as local processes."""

"""The packages that an archive requires: pip's settings for uv, the installation, and the folder that keeps it."""

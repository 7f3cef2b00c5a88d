"""Models in service: archives behind pools of workers, and model files in a thread of the server."""

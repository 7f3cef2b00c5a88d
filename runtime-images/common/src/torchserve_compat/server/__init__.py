"""The server's half of a handler: models that send batches of requests to wherever the handler runs."""

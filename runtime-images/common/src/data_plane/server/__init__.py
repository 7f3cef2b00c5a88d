"""A small HTTP server: bytes in, bytes out, one error form, nothing between the socket and the endpoint."""

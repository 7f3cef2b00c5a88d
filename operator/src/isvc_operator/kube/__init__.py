"""The only package that talks to the API server: requests as values, the client that sends them, watches, the Lease."""

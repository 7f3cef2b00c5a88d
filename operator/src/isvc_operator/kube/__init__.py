"""The only package that talks to the API server: the watch cache, requests as values, and their application."""

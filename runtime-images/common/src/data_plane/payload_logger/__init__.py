"""Sends requests and responses as CloudEvents to a sink, as KServe's agent does, without making a request wait."""

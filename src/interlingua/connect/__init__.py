"""Connectors: stream from any provider over its dialect."""

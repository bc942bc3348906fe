"""Ollama's chat wire."""

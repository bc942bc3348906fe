"""Ollama's chat API: `codec`, and its `Wire` in `wire`."""

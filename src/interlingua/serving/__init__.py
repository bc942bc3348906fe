"""Shared by the HTTP servers: listening and graceful stop, access control, browser defences, SSE, errors."""

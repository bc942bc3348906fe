"""The agent host: many sessions, sub-agents, channels and replies, and the tools for them."""

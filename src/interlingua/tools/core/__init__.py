"""The core tools: one module each, with a factory that takes a ToolContext."""

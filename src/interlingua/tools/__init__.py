"""Tools: what they are, the registry, the core tools, the rules under which they run."""

"""The conversation format as plain values, and the helpers that every layer shares."""

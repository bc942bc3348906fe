"""The gateway: any client format in, any provider out. `interlingua serve` runs it; `Gateway` is the same from code."""

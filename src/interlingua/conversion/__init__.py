"""Conversion between formats: detection, decoding, encoding, checks, adapting."""

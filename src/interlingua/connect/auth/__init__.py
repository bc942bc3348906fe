"""Keys and logins: where they are found, kept and renewed."""

"""Keys and logins: resolution, storage and renewal."""

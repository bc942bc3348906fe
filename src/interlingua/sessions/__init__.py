"""Sessions: conversations on disk, as append-only trees."""

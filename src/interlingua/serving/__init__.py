"""What every HTTP server of this package shares: listening and stopping, access, browser defences, events, errors."""

"""The migrations, oldest first; each names the one before it."""

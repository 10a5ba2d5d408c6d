"""Notifications: notices when a condition changes, a digest for each owner, fix files to the shipper, health pings."""

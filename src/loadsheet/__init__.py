"""loadsheet."""

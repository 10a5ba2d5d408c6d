"""What an operator needs around a run: expected files, notices, figures and health, and what is kept for how long."""

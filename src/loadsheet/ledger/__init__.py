"""Stage 4: the ledger. What is known about every file, document and attempt, durably."""

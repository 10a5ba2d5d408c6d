"""The fleet: processes on several machines that share a ledger, and what they agree on: who does what, at what pace, and when."""

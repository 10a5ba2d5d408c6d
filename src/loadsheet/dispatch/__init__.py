"""Stage 5: dispatch. One call, one Outcome; lanes and pace. Talks to the ledger and the exchange, never to source files."""

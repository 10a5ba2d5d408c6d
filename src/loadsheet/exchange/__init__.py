"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator."""

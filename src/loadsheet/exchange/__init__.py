"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator.

A request passes `server` (sockets), `limits` (limits for each client), `app` (token, route, validation, answer), `record_store` (one
writer, group commit, truth log) with `database` (tables), and `effects` (the effects of operations).
`wire` parses and encodes JSON, `responses` makes responses and sends listings, `auth` authenticates callers and delays wrong tokens.

For people: `pages` (login, records, manual) with `browsing` (queries and the latest calls); for programs and people `api_description`.
"""

from loadsheet.exchange.app import create_app
from loadsheet.exchange.auth import Token, TokenAdmin
from loadsheet.exchange.record_store import Store, StoreFailed
from loadsheet.exchange.server import Address, ExchangeSetup, Tls, serve, serve_embedded

__all__ = [
    "Address",
    "ExchangeSetup",
    "Store",
    "StoreFailed",
    "Tls",
    "Token",
    "TokenAdmin",
    "create_app",
    "serve",
    "serve_embedded",
]

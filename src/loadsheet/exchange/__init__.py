"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator.

A request passes `server` (sockets), `limits` (limits for each client), `app` (token, route, validation, answer), `store` (one
writer, group commit, truth log) and `effects` (the effects of operations). `wire` parses and encodes JSON, `answers` makes
responses and sends listings, `tokens` authenticates callers and delays wrong tokens, `scripts` reads personalities.

For people: `pages` (login, records, manual) with `browsing` (queries), `calls` (the latest calls) and `sessions`; for programs and people
`api_description`.
"""

from loadsheet.exchange.app import create_app
from loadsheet.exchange.scripts import deviations, read_personality
from loadsheet.exchange.server import Address, Embedded, ExchangeSetup, Tls, serve
from loadsheet.exchange.store import Store, StoreFailed, TokenOffice
from loadsheet.exchange.tokens import Token

__all__ = [
    "Address",
    "Embedded",
    "ExchangeSetup",
    "Store",
    "StoreFailed",
    "Tls",
    "Token",
    "TokenOffice",
    "create_app",
    "deviations",
    "read_personality",
    "serve",
]

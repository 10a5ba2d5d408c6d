"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator.

The way of a request: `server` (sockets) -> `app` (token, route, verdict, answer) -> `store` (one writer, group commit) ->
`effects` (what an operation does). `wire` turns bytes into values and back.
"""

from loadsheet.exchange.app import create_app
from loadsheet.exchange.server import Embedded, serve
from loadsheet.exchange.store import Store, StoreFailed

__all__ = ["Embedded", "Store", "StoreFailed", "create_app", "serve"]

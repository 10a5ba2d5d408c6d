"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator.

The way of a request: `server` (sockets) -> `app` (token, route, verdict, answer) -> `store` (one writer, group commit) ->
`effects` (what an operation does). `wire` turns bytes into values and back; `limits` bounds what a client may take; `paging` sends
listings and `http_cycle` every other answer. Beside the way: `address` (who may be served without TLS), `wrong_tokens` (slows down
guesses), `overload` (429 and 503), `personality` (how it answers where the interface is silent), `truth_log` (what really
happened), and for tests `faults` (which request meets what), `front` and `spoiled_answers` (how that looks).

For people: `pages` (login, what arrived, the manual), on `browsing` (reads), `calls` (the latest), `sessions`, `manual`, `rendering`;
for programs that learn: `openapi`.
"""

from loadsheet.exchange.address import Tls
from loadsheet.exchange.app import create_app
from loadsheet.exchange.faults import FaultClass, FaultRule, FaultScript, Fired, Happens, read_faults
from loadsheet.exchange.limits import Limits
from loadsheet.exchange.personality import deviations, read_personality
from loadsheet.exchange.server import Embedded, serve
from loadsheet.exchange.store import Store, StoreFailed, TokenOffice
from loadsheet.exchange.tokens import Token

__all__ = [
    "Embedded",
    "FaultClass",
    "FaultRule",
    "FaultScript",
    "Fired",
    "Happens",
    "Limits",
    "Store",
    "StoreFailed",
    "Tls",
    "Token",
    "TokenOffice",
    "create_app",
    "deviations",
    "read_faults",
    "read_personality",
    "serve",
]

"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator.

A request passes `server` (sockets), `limits` (what one client may take), `app` (token, route, verdict, answer), `store` (one writer, group
commit) and `effects` (what an operation does). `wire` parses and encodes JSON, `answers` makes responses, `paging` sends listings.
`wrong_tokens` slows guesses down, `personality` says how the exchange answers where the interface is silent, `truth_log` records what
really happened. For tests: `faults` (which request meets which fault), `front` and `spoiled_answers` (how a fault looks).

For people: `pages` (login, records, manual) with `browsing` (queries), `calls` (the latest calls), `sessions`, `manual`, `rendering`;
for programs: `openapi`.
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

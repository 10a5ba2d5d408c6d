"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator.

A request passes `server` (sockets), `limits` (what one client may take), `app` (token, route, verdict, answer), `store` (one writer, group
commit, truth log) and `effects` (what an operation does). `wire` parses and encodes JSON, `answers` makes responses and sends listings,
`tokens` knows callers and slows wrong ones down. For tests: `faults` (which request meets which fault, and how it looks), `fault_proxy` (the
connections that show it), `scripts` (files of faults, and of how the exchange answers where the interface is silent).

For people: `pages` (login, records, manual) with `browsing` (queries), `calls` (the latest calls) and `sessions`; for programs and people
`api_description`.
"""

from loadsheet.exchange.app import create_app
from loadsheet.exchange.faults import FaultClass, FaultRule, FaultScript, Fired, Happens
from loadsheet.exchange.scripts import deviations, read_faults, read_personality
from loadsheet.exchange.server import Address, Embedded, ExchangeSetup, Rehearsal, Tls, serve
from loadsheet.exchange.store import Store, StoreFailed, TokenOffice
from loadsheet.exchange.tokens import Token

__all__ = [
    "Address",
    "Embedded",
    "ExchangeSetup",
    "FaultClass",
    "FaultRule",
    "FaultScript",
    "Fired",
    "Happens",
    "Rehearsal",
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

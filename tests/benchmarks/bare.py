"""Servers that store nothing, for comparison: `python -m tests.benchmarks.bare starlette|fastapi` says its URL and serves.

Both parse a create of an order, validate it and answer as the exchange does. The Starlette route validates with the contract's
own check, the FastAPI route with models of the same fields as one would write them for FastAPI.
"""

import json
import socket
import sys
from decimal import Decimal
from typing import Any

import uvicorn
from pydantic import create_model
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from loadsheet.contract import BY_NAME, Assumptions, Kind, When, body_checker, refusal, success

CREATE = BY_NAME["order.create"]
ASSUMED = Assumptions()


def with_starlette():
    check = body_checker(CREATE, ASSUMED)

    async def create(request):
        body = json.loads(await request.body(), parse_float=Decimal)
        if faults := check(body):
            return JSONResponse(refusal(CREATE, faults), 400)
        return JSONResponse(success(CREATE, body, ASSUMED, service_order=1))

    return Starlette(routes=[Route(CREATE.path, create, methods=["POST"])])


def with_fastapi():
    from fastapi import FastAPI

    app, model = FastAPI(), model_of(CREATE.record)

    async def create(order: model) -> dict[str, Any]:
        return success(CREATE, {name: getattr(order, name) for name in echoed}, ASSUMED, service_order=1)

    echoed = ("order_id", "sender_id", "receiver_id")
    app.post(CREATE.path)(create)
    return app


def model_of(record):
    """A plain pydantic model of a record."""
    return create_model(record.name.replace(" ", ""), **{field.name: typed(field) for field in record.fields})


def typed(field):
    kinds = {Kind.NUMERIC: Decimal, Kind.STRING_OR_NUMERIC: str | int}
    kind = model_of(field.record) if field.record else kinds.get(field.kind, str)
    kind = list[kind] if field.kind is Kind.ARRAY else kind
    return (kind, ...) if field.when in (When.ALWAYS, When.ON_CREATE) else (kind | None, None)


def main():
    app = {"starlette": with_starlette, "fastapi": with_fastapi}[sys.argv[1]]()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, lifespan="off", ws="none", access_log=False, log_level="warning", server_header=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()

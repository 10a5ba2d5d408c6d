"""Settings of logs, metrics, health and traces."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, NonNegativeInt, PositiveFloat, field_validator


class Seeing(BaseModel):
    """How a run is seen from outside."""

    log_level: Literal["off", "error", "warning", "info", "debug"] = Field(
        "off",
        description="Log lines from this level on go to stderr; a run's own file STATE/logs/RUN.jsonl always has info, or debug if set here",
    )
    log_format: Literal["auto", "human", "json"] = Field(
        "auto",
        description="Log lines on stderr: for people on a terminal and JSON in a pipe (auto), or always one of them",
    )
    log_days: NonNegativeInt = Field(90, description="Days for which the log files of runs are kept (0: for ever)")

    metrics_file: Path | None = Field(
        None,
        description="File for Prometheus' textfile collector, such as /var/lib/node_exporter/loadsheet.prom; a shipper's name goes before .prom",
    )
    health_address: str = Field(
        "",
        description="Where a watch answers /health and /metrics, such as 127.0.0.1:9465; whoever reaches it may read (empty: nowhere)",
    )
    health_stale_s: PositiveFloat = Field(
        900.0, description="A watch without a sign of life for so long in the middle of a run is told as stuck"
    )
    otlp_endpoint: str = Field(
        "",
        pattern=r"^(https?://\S+)?$",
        description="OpenTelemetry collector that gets traces of runs over HTTP, such as http://127.0.0.1:4318 (empty: none)",
    )

    @field_validator("metrics_file", mode="before")
    @classmethod
    def _empty_is_no_file(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("health_address")
    @classmethod
    def _has_a_port(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if value and not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16):
            raise ValueError(f"{value!r} is no address with a port; write 127.0.0.1:9465 or [::1]:9465")
        return value

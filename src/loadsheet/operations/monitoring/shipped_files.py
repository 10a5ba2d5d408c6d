"""The files for other programs that come with loadsheet: a dashboard, alert rules, and questions about the ledger."""

from importlib.resources import files
from typing import Literal, get_args

Name = Literal["grafana.json", "prometheus-alerts.yml", "datasette.yaml"]

NAMES: tuple[str, ...] = get_args(Name)


def shipped(name: Name) -> bytes:
    """The bytes of one of them."""
    return files("loadsheet.operations.monitoring").joinpath("shipped", name).read_bytes()

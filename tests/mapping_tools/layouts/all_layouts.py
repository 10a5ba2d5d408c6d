"""All labelled layouts."""

from .files_layouts import FILES
from .held_out_layouts import HELD_OUT
from .made_layouts import MADE
from .orders_layouts import ORDERS

LAYOUTS = [*MADE, *ORDERS, *FILES, *HELD_OUT]

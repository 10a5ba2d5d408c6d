"""Benchmarks, each a command: `python -m tests.benchmarks.NAME`. They share `measuring` and the helpers of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

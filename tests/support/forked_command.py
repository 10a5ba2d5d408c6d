"""What workers of the workshop do: a whole `loadsheet` command, in a process forked from one that has done a night already.

Whatever is loaded, compiled or remembered at its first use would else be so by every worker, which costs more than the night.
"""

import gc
import io
import os
import shutil
import signal
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import loadsheet.cli.exchange
import loadsheet.cli.run
import loadsheet.exchange.server
from loadsheet.cli import invoke

MAPPINGS = Path(__file__).parents[1] / "proofs" / "mappings"
IMPORTED = (loadsheet.cli.run, loadsheet.cli.exchange, loadsheet.exchange.server)


def work(task):
    """Run `loadsheet WORDS`; the exit code. With `say`, a file, what the command prints goes there at once."""
    os.environ.update(task.get("environment", {}))
    if "say" in task:
        os.dup2(os.open(task["say"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    return invoke(task["words"])


def _a_night():
    """A run against an exchange in a process of its own, in a folder that is gone afterwards."""
    here, environment = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as place:
        says, shipper = Path(place, "says"), Path(place, "shipper")
        shutil.copytree(MAPPINGS, shipper / "mappings")
        (shipper / "inbox").mkdir()
        (shipper / "inbox" / "orders.csv").write_text("Order,City,Weight\nA-1,Bonn,1\nA-2,,x\n", encoding="utf-8")
        os.chdir(shipper)
        os.environ |= {
            "LOADSHEET_TOKEN": "canary-3c15ab",
            "LOADSHEET_ARRIVAL__SETTLE_S": "0",
            "LOADSHEET_READING__PROCESS": "none",
        }
        exchange = os.fork()
        if not exchange:
            words = ["exchange", "serve", "--port", "0", "--database", "sqlite:///x.db"]
            os._exit(work({"words": words, "say": str(says)}))
        while not (says.exists() and says.read_text().endswith("\n")):
            time.sleep(0.005)
        with redirect_stdout(io.StringIO()):
            code = invoke(["run", "--quiet", "--exchange", says.read_text().splitlines()[0].rsplit(" ", 1)[1]])
        os.kill(exchange, signal.SIGTERM)
        os.waitpid(exchange, 0)
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environment)
        assert code == 1, code


_a_night()
gc.collect()
gc.freeze()  # what is here now stays shared with every worker

"""Coverage-guided fuzzing of reading by atheris (libFuzzer): `python tests/fuzz/fuzz_reading.py TARGET [options of libFuzzer]`.

Targets: csv, xlsx, xls, xlsb, ods, header.

`make fuzz` runs each target for FUZZ_S seconds. What is found is written to `.fuzz/`; a file from there becomes a seed once it is
mended.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["loadsheet.reading", "fuzz_targets"]):
    from fuzz_targets import SEEDS, TARGETS


def main() -> None:
    """Fuzz the target that the first argument names, from its seeds on; what is new is kept out of the tree."""
    name = sys.argv[1]
    found = Path(".fuzz") / name
    found.mkdir(parents=True, exist_ok=True)
    options = [
        "-timeout=30",
        "-rss_limit_mb=1024",
        "-max_len=20000",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, *sys.argv[2:], str(found), str(SEEDS / name)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()

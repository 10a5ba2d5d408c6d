"""The command line: words in, exit code out."""


def main() -> None:
    """Run the command line."""

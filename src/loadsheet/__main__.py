"""`python -m loadsheet`: the command line."""

from loadsheet.cli import main

if __name__ == "__main__":
    main()

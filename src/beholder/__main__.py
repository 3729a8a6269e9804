"""`python -m beholder` is `beholder`."""

from beholder.cli.main import main

if __name__ == "__main__":
    main()

"""`python -m sidecar` is `memory-sidecar`."""

from sidecar.cli import main

if __name__ == "__main__":
    main()

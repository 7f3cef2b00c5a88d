"""The entry point; worker processes import it again, so it imports nothing unless it is run."""

if __name__ == "__main__":
    import sys

    from mar_runtime.cli import main

    sys.exit(main())

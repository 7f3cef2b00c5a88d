"""``python -m storage_initializer SRC DEST [SRC DEST …]``."""

import sys

from storage_initializer.cli import main

if __name__ == "__main__":
    sys.exit(main())

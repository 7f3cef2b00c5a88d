"""``python -m storage_initializer SRC DEST [SRC DEST …]``."""

from storage_initializer.cli import main
from storage_initializer.termination import leave

if __name__ == "__main__":
    leave(main())

"""`python -m footfall COMMAND …`, the same as `footfall COMMAND …`."""

import sys

from footfall.cli import main

if __name__ == "__main__":
    sys.exit(main())

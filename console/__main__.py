"""`python -m console`: the same as the `roundhouse` command, for child processes."""

import sys

from console.cli import main

sys.exit(main())

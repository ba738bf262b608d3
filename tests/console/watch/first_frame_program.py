"""`roundhouse watch` that ends with its first frame and says which modules it had loaded by then.

Its terminal is driven by the class here: TEXTUAL_DRIVER=tests.console.watch.first_frame_program:FirstFrame.
"""

import os
import sys
from pathlib import Path

from textual.drivers.linux_driver import LinuxDriver

from console.cli import main


class FirstFrame(LinuxDriver):
    """Ends the program once the tabs are written."""

    def write(self, data: str) -> None:
        """Notes what is loaded when the tabs come by."""
        if "Signals" in data:
            Path(sys.argv[2]).write_text("\n".join(sorted(sys.modules)))
            os._exit(0)
        super().write(data)


if __name__ == "__main__":
    sys.exit(main(["watch", sys.argv[1]]))

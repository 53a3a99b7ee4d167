# SPDX-License-Identifier: Apache-2.0
"""`python -m sottovoce`: the command line."""

import sys

from sottovoce.cli import main

if __name__ == "__main__":
    sys.exit(main())

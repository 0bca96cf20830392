"""`python -m hunt`."""

import sys

from .hunt import main

sys.exit(main())

"""`python -m suites`."""

import sys

from .suites import main

sys.exit(main())

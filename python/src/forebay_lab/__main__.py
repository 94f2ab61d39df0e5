"""`python -m forebay_lab` is `forebay-lab`."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())

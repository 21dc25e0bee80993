"""What the tests of this folder share."""

from __future__ import annotations

import sys
from pathlib import Path

# Makes `scan_looks` importable.
sys.path.insert(0, str(Path(__file__).parent))

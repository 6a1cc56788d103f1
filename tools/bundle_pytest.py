"""Make engine/verifier/protected/bundle.zip: `python tools/bundle_pytest.py WHEEL…`.

The wheels are those of PINS, the newest that run on Python 3.8 (`pip download --no-deps` gets
them). The zip holds their files with no times, so that the same wheels always give the same bytes.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

BUNDLE = Path(__file__).resolve().parents[1] / "engine/verifier/protected/bundle.zip"
PINS = {
    "exceptiongroup": "1.2.2",  # Python 3.8 to 3.10
    "iniconfig": "2.1.0",
    "packaging": "25.0",
    "pluggy": "1.5.0",
    "pytest": "8.3.5",
    "tomli": "2.0.2",  # Python 3.8 to 3.10
}


def main(wheels: list[Path]) -> None:
    """Check that these are the wheels, and pack them."""
    found = {wheel.name.split("-")[0]: wheel for wheel in wheels}
    versions = {name: wheel.name.split("-")[1] for name, wheel in found.items()}
    if versions != PINS:
        sys.exit(f"wanted {PINS}, found {versions}")
    with zipfile.ZipFile(BUNDLE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as bundle:
        for name in sorted(found):
            with zipfile.ZipFile(found[name]) as wheel:
                for path in sorted(wheel.namelist()):
                    info = zipfile.ZipInfo(path)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    info.external_attr = 0o644 << 16
                    bundle.writestr(info, wheel.read(path))
    print(f"{BUNDLE}: {BUNDLE.stat().st_size} bytes")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])

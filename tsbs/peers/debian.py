"""Servers of the distribution, unpacked into a private folder: an installed package would run as a service."""

import pathlib
import subprocess

from .contender import Missing


def program(cache, package, path):
    """The program `path` of a package."""
    place = cache / package
    if not (place / path).exists():
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o755)
        command = (f"apt-get download -qq {package} 2>/dev/null || {{ apt-get update -qq && apt-get download -qq {package}; }}; "
                   f"dpkg -x {package}_*.deb . && rm {package}_*.deb")
        try:
            done = subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, text=True)
        except OSError as error:
            raise Missing(str(error)) from error
        if not (place / path).exists():
            raise Missing(f"apt-get download {package}: {done.stderr[-300:].strip()}")
    return pathlib.Path(place / path)

"""Fetches source packages with tests into the cache outside of the tree."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile


def cache():
    base = os.environ.get("STRATALOG_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "stratalog"
    )
    return pathlib.Path(base) / "suites"


def sdist(name, version):
    """The unpacked source package of a Python distribution."""
    folder = cache() / f"{name}-{version}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--no-binary", ":all:", "-d", folder, f"{name}=={version}"],
            check=True,
        )
        for archive in folder.glob("*.tar.gz"):
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
        (folder / "complete").touch()
    return next(path for path in folder.iterdir() if path.is_dir())


def libraries(*requirements):
    """A folder for PYTHONPATH with the packages needed only by a package's tests."""
    folder = cache() / ("libraries-" + "-".join(requirement.replace("==", "-") for requirement in requirements))
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", folder, *requirements],
            check=True,
        )
        (folder / "complete").touch()
    return folder


def go_module(path, version):
    """The folder of a Go module."""
    folder = cache() / "go"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text("module suites\n\ngo 1.22\n")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "mod", "download", f"{path}@{version}"], cwd=folder, env=environment, check=True)
    root = subprocess.run(["go", "env", "GOMODCACHE"], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    return pathlib.Path(root) / f"{path}@{version}"

"""SQLAlchemy 1.4, no longer supported by pandas: the tests of test_sqlalchemy.py in a separate Python."""

import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def test_what_holds_for_2_holds_for_1_4():
    installed = subprocess.run(
        [HERE / "install", "requirements-sqlalchemy-1.4.txt"], stdout=subprocess.PIPE, text=True, timeout=600, check=True
    )
    command = [
        installed.stdout.strip(),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        "--tb=short",
        "test_sqlalchemy.py",
    ]
    done = subprocess.run(command, cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout

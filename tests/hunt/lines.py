"""Random line protocol, compared with the crate influxdb-line-protocol: the property tests of `flight/line` with
more cases."""

import os
import subprocess
import time

from servers import ROOT


def hunt(seed, deadline, report):
    environment = {**os.environ, "PROPTEST_CASES": "20000"}
    while time.monotonic() < deadline:
        report.statements += 20000
        done = subprocess.run(["cargo", "test", "--locked", "-q", "-p", "stratalog-line", "--lib"], cwd=ROOT, env=environment,
                              capture_output=True, text=True)
        if done.returncode:
            report.add("answer", "cargo test -p stratalog-line --lib", done.stdout[-4000:], "every property holds", ("lines", done.stdout[-80:]))
            return

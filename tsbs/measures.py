"""Common helpers of the benchmarks: the machine, times, and printing and storing of results."""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "clients"))
from servers import ROOT, Postgres  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


def timed(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def built(name, *words):
    """The path of a program; builds it with cargo and these arguments if it is missing."""
    done = subprocess.run(["cargo", *words, "--locked", "--message-format=json"], cwd=ROOT, capture_output=True, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [each["executable"] for each in messages if each.get("executable") and each["target"]["name"] == name]
    if done.returncode != 0 or not found:
        raise RuntimeError(f"cargo {words[0]}: {done.stderr}")
    return found[0]


def resident_bytes(process):
    """Resident memory of a process."""
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def drop_caches():
    """Empties the page cache; returns true on success."""
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        return True
    except OSError:
        return False


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def shown(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def line_of(figure):
    """A figure as a table line of at most 80 columns."""
    verdict = {None: "", True: "met", False: "MISSED"}[figure["met"]]
    return (f"  {figure['what']:46} {shown(figure['value']):>9} {figure['unit']:7}"
            f"{figure['target'] or '':>9} {verdict}").rstrip()


def machine(directory):
    """The properties of the machine that affect the results."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    file_system = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True).stdout.strip()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e6, 1),
        "kernel": platform.release(),
        "file_system": {"ext2/ext3": "ext4"}.get(file_system, file_system),
        "postgres": subprocess.run([Postgres.programs() / "postgres", "--version"], capture_output=True, text=True).stdout.strip(),
        "commit": commit,
        "at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def results_name(details):
    return details["at"].replace(" UTC", "").replace(" ", "-").replace(":", "")


def write_results(bench, details):
    RESULTS.mkdir(exist_ok=True)
    name = results_name(details)
    document = {"machine": details, "rows": bench.rows, "scale": bench.arguments.scale, "load": bench.load, "figures": bench.figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    lines = [f"# {details['at']}", ""]
    lines += [f"{key}: {value}  " for key, value in details.items() if key != "at"]
    lines += [f"data: {bench.rows} rows of TSBS cpu-only, scale {bench.arguments.scale}  ",
              f"load average before and after: {', '.join(f'{load:.1f}' for load in bench.load)}  ", "",
              "| what | value | target | |", "|---|---:|---:|---|"]
    for figure in bench.figures:
        verdict = {None: "", True: "met", False: "**missed**"}[figure["met"]]
        lines.append(f"| {figure['what']} | {shown(figure['value'])} {figure['unit']} | {figure['target'] or ''} | {verdict} |")
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    print(f"written to tsbs/results/{name}.md")

"""Checks a bill of materials: the schema of CycloneDX 1.5, and the promises of docs/supply-chain.md.

validate.py FIRST SECOND: both files were made from the same commit.
"""

import json
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def faults_of_schema(text):
    """The places that contradict the schema."""
    fault = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    return [] if fault is None else [str(fault)]


def faults_of_references(bom):
    """Components without an entry in the graph, and edges without a component."""
    known = {bom["metadata"]["component"]["bom-ref"]} | {one["bom-ref"] for one in bom["components"]}
    nodes = {one["ref"] for one in bom["dependencies"]}
    targets = {to for one in bom["dependencies"] for to in one["dependsOn"]}
    affected = {one["ref"] for fault in bom.get("vulnerabilities", []) for one in fault["affects"]}
    return [f"unknown reference {ref}" for ref in sorted((nodes | targets | affected) - known)] + [
        f"not in the graph: {ref}" for ref in sorted(known - nodes)
    ]


def faults_of_components(bom):
    """Packages without a package URL, a hash or a licence; crates of this repository need a licence only."""
    faults = []
    for one in bom["components"]:
        own = any(item["name"] == "stratalog:own" for item in one.get("properties", []))
        needed = ["licenses"] if own else ["licenses", "purl", "hashes"]
        faults += [f"{one['bom-ref']} has no {name}" for name in needed if not one.get(name)]
    return faults


def main(first, second):
    text = Path(first).read_text(encoding="utf-8")
    bom = json.loads(text)
    checks = {
        "schema": faults_of_schema(text),
        "references": faults_of_references(bom),
        "components": faults_of_components(bom),
        "same bytes twice": [] if text == Path(second).read_text(encoding="utf-8") else ["the files differ"],
    }
    for name, faults in checks.items():
        for fault in faults:
            print(f"bill of materials: {name}: {fault}", file=sys.stderr)
    failed = sum(1 for faults in checks.values() if faults)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

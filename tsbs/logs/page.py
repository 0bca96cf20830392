"""The results of a run, as a page and as JSON."""

import json

from measures import RESULTS, results_name, shown

from .sides import MEASURES, title


def write(document, sides, details):
    RESULTS.mkdir(exist_ok=True)
    name = f"{results_name(details)}-log"
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    page = [f"# The log, {details['at']}", ""]
    page += [f"{key}: {value}  " for key, value in details.items() if key not in ("at", "postgres")]
    page += [f"load average before and after: {', '.join(f'{load:.1f}' for load in document['load'])}  ", ""]
    page += beside(sides, document) if sides else []
    page += targets(document["targets"])
    page += [f"**{what} failed**: {why}  " for what, why in document["failures"].items()]
    page += [f"{what} is missing: {why}  " for what, why in document["missing"].items()]
    (RESULTS / f"{name}.md").write_text("\n".join(page).rstrip() + "\n")
    print(f"written to tsbs/results/{name}.md")


def beside(sides, document):
    page = ["## Beside other logs", ""]
    page += [f"{log['name']} {log['version']}: {log['way']}  " for log in document["logs"]]
    page += ["", f"Medians of {sides.arguments.rounds} rounds; *times*: ours by the best of the others, above 1 where we are ahead.", ""]
    names = [log.name for log in sides.logs]
    for load in sides.loads():
        page += [f"| {title(load)} | {' | '.join(names)} | times |", "|---|" + "---:|" * (len(names) + 1)]
        for measure, what, unit in MEASURES:
            cells = [cell(sides.median(load, name, measure), unit) for name in names]
            times = sides.times(load, measure)
            shown_times = "" if times is None else f"{times:.2f}" if times >= 1 else f"**{times:.2f}**"
            page.append(f"| {what} | {' | '.join(cells)} | {shown_times} |")
        page.append("")
    return page


def cell(value, unit):
    return "" if value is None else f"{shown(value)} {unit}"


def targets(figures):
    if not figures:
        return []
    page = ["## What it takes and gives", "", "| what | value | target | |", "|---|---:|---:|---|"]
    for figure in figures:
        verdict = {None: "", True: "met", False: "**missed**"}[figure["met"]]
        page.append(f"| {figure['what']} | {shown(figure['value'])} {figure['unit']} | {figure['target'] or ''} | {verdict} |")
    return [*page, ""]

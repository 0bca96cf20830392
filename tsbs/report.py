"""The results of a comparison, as lines, as a page, as JSON and as a chart."""

import json
import re
import statistics

import chart
from measures import RESULTS, percentile, results_name


def line(figures):
    """The results of a query type as a line."""
    parts = [f"{label} {shown(statistics.median(ms))}" for label, ms in figures["ms"].items() if ms]
    ratio = to_best_peer(figures)
    verdict = f"DIFFERS from {', '.join(sorted({each['with'] for each in figures['differences']}))}" if figures["differences"] else ""
    failed = "; ".join(f"{label} FAILS" for label, why in figures["failures"].items() if not lacking(why))
    return f"  {figures['type']:24} {f'{ratio:.2f}x' if ratio else '':>7} {', '.join(parts)} ms {verdict} {failed}".rstrip()


def lacking(why):
    return why.startswith("TSBS has no")


def shown(milliseconds):
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.1f}" if milliseconds >= 10 else f"{milliseconds:.2f}"


def is_peer(label):
    return label != "Stratalog" and label != "a tenth fresh" and "× the span" not in label


def to_best_peer(figures):
    """Stratalog's median divided by the best peer's median."""
    ours = figures["ms"].get("Stratalog")
    peers = [statistics.median(ms) for label, ms in figures["ms"].items() if is_peer(label) and ms]
    return statistics.median(ours) / min(peers) if ours and peers else None


def finish(results, details, keep):
    """Prints and writes everything; returns the exit code."""
    page = pages(results, details)
    print("\n".join(page))
    if keep:
        name = results_name(details)
        RESULTS.mkdir(exist_ok=True)
        document = json.dumps({"machine": details, **results}, indent=1)
        # Puts lists of numbers on a single line.
        document = re.sub(r"\[\s+([-0-9.,e\s]+?)\s+\]", lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", document)
        (RESULTS / f"{name}.json").write_text(document + "\n")
        (RESULTS / f"{name}.svg").write_text(chart.draw(results))
        page[1:1] = ["", f"![medians]({name}.svg)"]
        (RESULTS / f"{name}.md").write_text("\n".join(page) + "\n")
        print(f"written to tsbs/results/{name}.md")
    wrong = [f"{one['name']} {figures['type']}" for one in results["sets"] for figures in one["types"]
             if figures["differences"] or any(not lacking(why) for why in figures["failures"].values())]
    wrong += [f"{one['name']} {label}" for one in results["sets"] for label in one["failures"]]
    print(f"{sum(len(one['types']) for one in results['sets'])} query types, {len(wrong)} with failures or differences"
          + (f": {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


def pages(results, details):
    parameters = results["parameters"]
    page = [f"# {details['at']}: TSBS, compared", ""]
    page += [f"{key}: {value}  " for key, value in details.items() if key != "at"]
    page += [f"parameters: {', '.join(f'{key} {value}' for key, value in parameters.items() if value and key not in ('types', 'keep'))}  ",
             f"load average before and after: {', '.join(f'{load:.1f}' for load in results['load'])}  ",
             f"took: {results['seconds'] / 60:.0f} minutes  ", ""]
    page += ["Medians and, in brackets, 95th percentiles in milliseconds, of one client, from sending the query until the last byte "
             "of the answer is there. Contenders with the same rows take turns; every text is asked once, with the same parameters "
             "for all. Those that run in a process of their own have no wire between them and the client: DuckDB and chDB.", ""]
    for name, why in results["missing"].items():
        page += [f"**{name} is missing**: {why}", ""]
    for one in results["sets"]:
        page += section(one, parameters)
    return page


def section(one, parameters):
    page = [f"## {one['name']}: {one['rows']:,} rows", "", *loading(one), ""]
    labels = [about["label"] for about in one["contenders"]]
    usual = [label for label in labels if label == "Stratalog" or is_peer(label)]
    page += [f"| query | {' | '.join(usual)} | to the best peer | answers |", "|---|" + "---:|" * (len(usual) + 1) + "---|"]
    for figures in one["types"]:
        ratio = to_best_peer(figures)
        compared = sum(1 for label in figures["ms"] if is_peer(label))
        agree = "**differ**" if figures["differences"] else f"same, {figures['rows']:,} rows" if compared else ""
        page.append(f"| {figures['type']} | {' | '.join(cell(figures, label) for label in usual)} "
                    f"| {f'{ratio:.2f}' if ratio else ''} | {agree} |")
    page.append("")
    page += fresh(one) + longer(one, labels, parameters) + crowd(one, usual, parameters) + troubles(one)
    return page


def loading(one):
    yield "| | version | answers come by | rows/s loaded | settled, s | MB on disk | bytes per row | |"
    yield "|---|---|---|---:|---:|---:|---:|---|"
    for about in one["contenders"]:
        yield (f"| {about['label']} | {about['version']} | {about['way']} | {about['rows_per_second']:,.0f} | {about['settled_seconds']:.1f} "
               f"| {about['bytes'] / 1e6:,.1f} | {about['bytes'] / about['rows']:.1f} | {'; '.join(about['notes'])} |")


def cell(figures, label):
    ms = figures["ms"].get(label)
    if not ms:
        why = figures["failures"].get(label, "")
        return "" if lacking(why) else "**fails**"
    return f"{shown(statistics.median(ms))} ({shown(percentile(ms, 95))})"


def fresh(one):
    rows = [(figures, statistics.median(figures["ms"]["Stratalog"]), statistics.median(figures["ms"]["a tenth fresh"]))
            for figures in one["types"] if figures["ms"].get("Stratalog") and figures["ms"].get("a tenth fresh")]
    if not rows:
        return []
    page = ["A tenth of the rows not yet in stories, half of them in tablets and half in the journal:", "",
            "| query | all in stories | a tenth fresh | times |", "|---|---:|---:|---:|"]
    page += [f"| {figures['type']} | {cell(figures, 'Stratalog')} | {cell(figures, 'a tenth fresh')} | {late / settled:.2f} |"
             for figures, settled, late in rows]
    return [*page, ""]


def longer(one, labels, parameters):
    long = [label for label in labels if "× the span" in label]
    pairs = [(label, label.split(",")[0]) for label in long]
    rows = [figures for figures in one["types"] if any(figures["ms"].get(label) for label in long)]
    if not rows:
        return []
    page = [f"The same queries, for the same hours, on a table of {parameters['span']} times the span:", "",
            "| query | " + " | ".join(f"{label} | times" for label in long) + " |", "|---|" + "---:|---:|" * len(long)]
    for figures in rows:
        cells = []
        for label, short in pairs:
            known = figures["ms"].get(label) and figures["ms"].get(short)
            times = statistics.median(figures["ms"][label]) / statistics.median(figures["ms"][short]) if known else None
            cells.append(f"{cell(figures, label)} | {f'{times:.2f}' if times else ''}")
        page.append(f"| {figures['type']} | {' | '.join(cells)} |")
    return [*page, ""]


def crowd(one, usual, parameters):
    rows = [figures for figures in one["types"] if figures["clients"]]
    if not rows:
        return []
    page = [f"{parameters['clients']} clients at once: queries a second in times of one client's; and their p99 in times of their median:", "",
            f"| query | {' | '.join(usual)} |", "|---|" + "---:|" * len(usual)]
    for figures in rows:
        cells = []
        for label in usual:
            found = figures["clients"].get(label)
            cells.append(f"{found['per_second']:,.0f}/s {found['times']:.2f}; {found['p99'] / found['median']:.1f}" if found else "")
        page.append(f"| {figures['type']} | {' | '.join(cells)} |")
    return [*page, ""]


def troubles(one):
    page = []
    for label, why in one["failures"].items():
        page += [f"**{label} did not take part**: {why}", ""]
    for figures in one["types"]:
        for label, why in figures["failures"].items():
            if not lacking(why):
                page += [f"**{figures['type']}, {label} fails**: {why}", ""]
        for each in figures["differences"][:2]:
            page += [f"**{figures['type']}, {each['of']} and {each['with']} differ**: {each['what']}", "", "```sql", each["text"].strip(), "```", "",
                     "```sql", each["their_text"].strip(), "```", ""]
    if one["left_out"]:
        page += [f"Left out, as they need more hours or a larger scale: {', '.join(one['left_out'])}.", ""]
    lacks = {}
    for figures in one["types"]:
        for label, why in figures["failures"].items():
            if lacking(why):
                lacks.setdefault((label, why), []).append(figures["type"])
    for (label, why), types in lacks.items():
        page += [f"{label}: {why}: {', '.join(types)}.", ""]
    return page

"""Medians as dots on a logarithmic scale, one line for each query type."""

import math
import statistics
from xml.sax.saxutils import escape

COLOURS = {"Stratalog": "#d62728", "QuestDB": "#1f77b4", "DuckDB": "#ff7f0e", "chDB": "#2ca02c", "PostgreSQL": "#7f7f7f",
           "InfluxDB": "#9467bd", "VictoriaMetrics": "#8c564b"}
LEFT, RIGHT, WIDTH, LINE, TOP = 240, 30, 900, 22, 60


def draw(results):
    """An SVG of all use cases."""
    rows = []
    for one in results["sets"]:
        rows.append((one["name"], None))
        rows += [(figures["type"], {label: statistics.median(ms) for label, ms in figures["ms"].items() if label in COLOURS and ms})
                 for figures in one["types"]]
    values = [value for _, dots in rows if dots for value in dots.values()] or [1]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    height = TOP + LINE * len(rows) + 40

    def place(value):
        return LEFT + (math.log10(value) - low) / max(1, high - low) * (WIDTH - LEFT - RIGHT)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             f'<text x="{LEFT}" y="20" font-size="14">Median of one client in milliseconds; further left is faster</text>']
    at = LEFT
    for label in [label for label in COLOURS if any(dots and label in dots for _, dots in rows)]:
        parts.append(f'<circle cx="{at + 5}" cy="38" r="5" fill="{COLOURS[label]}"/><text x="{at + 14}" y="42">{label}</text>')
        at += 34 + 7 * len(label)
    bottom = TOP + LINE * len(rows)
    for power in range(low, high + 1):
        x = place(10 ** power)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
                     f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{10 ** power:g}</text>')
    for number, (name, dots) in enumerate(rows):
        y = TOP + LINE * number + LINE / 2
        if dots is None:
            parts.append(f'<text x="10" y="{y + 4}" font-weight="bold">{escape(name)}</text>')
            continue
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
                     f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#f0f0f0"/>')
        # Stratalog last, so that its dot lies on top.
        for label, value in sorted(dots.items(), key=lambda dot: dot[0] == "Stratalog"):
            parts.append(f'<circle cx="{place(value):.1f}" cy="{y}" r="5" fill="{COLOURS[label]}" fill-opacity="0.85">'
                         f'<title>{label}: {value:.2f} ms</title></circle>')
    return "\n".join([*parts, "</svg>"]) + "\n"

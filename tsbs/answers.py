"""Compares the answers of two contenders to the same query."""

import tsbs

# The name of the time column in each dialect.
SAME_NAMES = {"timestamp": "time", "created_at": "time"}
# A column of the tags table: in Stratalog every table has a time column.
OURS_ONLY = {"added"}


def differences(query_type, ours, theirs):
    """None if the answers are equal; otherwise a description of the difference. Rows may come in
    any order, sums may add in another order, and a dialect may use other names or another order of
    columns."""
    ours, theirs = tidied(ours), tidied(theirs)
    names, rows = ours
    their_names, their_rows = theirs
    if not rows and not their_rows:
        # Some contenders omit column names if there are no rows.
        return None
    if sorted(names) == sorted(their_names) and len(set(names)) == len(names):
        places = [their_names.index(name) for name in names]
        their_rows = [tuple(row[place] for place in places) for row in their_rows]
    elif len(names) != len(their_names):
        return f"columns {names}, and theirs {their_names}"
    if len(rows) != len(their_rows):
        return f"{len(rows)} rows, and theirs {len(their_rows)}"
    rows, their_rows = sorted(rows, key=rank), sorted(their_rows, key=rank)
    for mine, other in zip(rows, their_rows):
        if not all(map(tsbs.same, mine, other)):
            return f"{mine}, and theirs {other}"
    return None


def tidied(answer):
    names, rows = answer
    names = [SAME_NAMES.get(name.split(".")[-1], name.split(".")[-1]) for name in names]
    keep = [at for at, name in enumerate(names) if name not in OURS_ONLY]
    return [names[at] for at in keep], [tuple(row[at] for at in keep) for row in rows]


def rank(row):
    """Sort key: texts and times first, then the other numbers, rounded to the digits that all
    contenders agree on."""
    exact, about = [], []
    for value in row:
        if isinstance(value, (int, float)) and abs(value) < 1e9:
            about.append(f"{float(value):.6g}")
        else:
            exact.append((value is not None, str(value)))
    return exact, about

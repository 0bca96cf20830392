"""Whether two contenders gave the same answer to the same question."""

import tsbs

# What dialects call the time of a row.
SAME_NAMES = {"timestamp": "time", "created_at": "time"}
# Of a table of tags, where every table has a column for the time.
OURS_ONLY = {"added"}


def differences(query_type, ours, theirs):
    """None when the same; otherwise what differs, in words. Rows may come in any order, sums may
    differ in the order of their additions, and a dialect may name or order columns otherwise."""
    ours, theirs = tidied(ours), tidied(theirs)
    names, rows = ours
    their_names, their_rows = theirs
    if not rows and not their_rows:
        # Not everybody names the columns of nothing.
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
    """Orders rows by texts and times first, and by other numbers as far as these are sure to agree."""
    exact, about = [], []
    for value in row:
        if isinstance(value, (int, float)) and abs(value) < 1e9:
            about.append(f"{float(value):.6g}")
        else:
            exact.append((value is not None, str(value)))
    return exact, about

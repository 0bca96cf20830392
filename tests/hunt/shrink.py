"""Shrinks a finding: cuts the query as long as the class of the difference stays the same."""


def shrink(query, still, tries=400):
    """The smallest query found within `tries` trials for which `still(query)` is true."""
    found = True
    while found and tries > 0:
        found = False
        for other in sorted(query.smaller(), key=lambda one: one.size()):
            if other.size() >= query.size() and len(other.sql()) >= len(query.sql()):
                continue
            tries -= 1
            if still(other):
                query, found = other, True
                break
            if tries <= 0:
                break
    return query

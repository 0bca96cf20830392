"""Queries in turns: every contender gets the same queries, and all others wait meanwhile."""

import statistics

from answers import differences
from measures import percentile
from texts import times

# The number of turns for the queries of a type.
TURNS = 4
# Duration of a rate measurement with several clients; each client runs at least one query.
RATE_SECONDS = 1.0


class Contest:
    """Contenders with the same rows; some may have more rows if the result stays the same."""

    def __init__(self, contenders, texts, end, queries, checks, clients):
        # `end`: the end of the data. A contender with more data would return more rows for a query beyond it.
        self.contenders, self.texts, self.end = contenders, texts, end
        self.queries, self.checks, self.clients = queries, checks, clients

    def run(self, query_type, beside=()):
        """The results of a type, {"type", "ms": {label: [...]}, "differences", "failures", "clients"}; None if the
        data allows no such queries. `beside` also takes part."""
        ours = self.texts.ours(query_type, self.checks + self.queries)
        if ours is None:
            return None
        taking, failures, texts = [], {}, {}
        for contender in [*self.contenders, *beside]:
            try:
                each = [contender.text(query_type, text) for text in ours]
            except Exception as error:
                failures[contender.label] = str(error)[:500]
                continue
            if None in each:
                failures[contender.label] = "TSBS has no such query for it"
                continue
            texts[contender.label] = each
            taking.append(contender)
        found = {"type": query_type, "ms": {}, "differences": [], "failures": failures, "clients": {}, "rows": 0}
        self.check(found, taking, texts, beside)
        taking = [contender for contender in taking if contender.label not in failures]
        self.take_turns(found, taking, texts)
        if self.clients > 1:
            for contender in taking:
                if contender not in beside:
                    self.rates(found, contender, texts[contender.label][self.checks:])
        return found

    def check(self, found, taking, texts, beside):
        """Compares the answers to the first texts, without measuring; also warms up the contenders."""
        for at in range(self.checks):
            answers = {}
            for contender in taking:
                if contender.label in found["failures"]:
                    continue
                try:
                    answer = contender.answer(texts[contender.label][at])
                    longer = contender in beside and any(when > self.end for when in times(texts[contender.label][at]))
                    if contender.comparable and not longer:
                        answers[contender.label] = answer
                except Exception as error:
                    found["failures"][contender.label] = str(error)[:1000]
            if not answers:
                continue
            first = next(iter(answers))
            found["rows"] += len(answers[first][1])
            for label, answer in answers.items():
                differs = label != first and differences(found["type"], answers[first], answer)
                if differs:
                    found["differences"].append({"with": label, "of": first, "what": str(differs)[:1500], "text": texts[first][at],
                                                 "their_text": texts[label][at]})

    def take_turns(self, found, taking, texts):
        each = max(1, -(-self.queries // TURNS))
        for turn, begin in enumerate(range(self.checks, self.checks + self.queries, each)):
            # The order rotates, so that no contender always follows the same contender.
            order = taking[turn % len(taking):] + taking[:turn % len(taking)] if taking else []
            for contender in order:
                part = texts[contender.label][begin:begin + each]
                try:
                    found["ms"].setdefault(contender.label, []).extend(contender.run(part)["ms"])
                except Exception as error:
                    found["failures"][contender.label] = str(error)[:1000]

    def rates(self, found, contender, texts):
        try:
            one = contender.run(texts, 1, RATE_SECONDS, True)
            many = contender.run(texts, self.clients, RATE_SECONDS, True)
        except Exception as error:
            found["failures"][contender.label] = f"with {self.clients} clients: {str(error)[:1000]}"
            return
        rate = len(one["ms"]) / one["seconds"]
        found["clients"][contender.label] = {
            "one_per_second": rate, "per_second": len(many["ms"]) / many["seconds"],
            "times": len(many["ms"]) / many["seconds"] / rate,
            "median": statistics.median(many["ms"]), "p99": percentile(many["ms"], 99), "queries": len(many["ms"]),
        }

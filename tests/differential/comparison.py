"""What differs between two runs, and what was expected to."""

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

ABSENT = "absent"


@dataclass
class Difference:
    """A field that differs in some versions of a case."""

    case: str
    place: str
    kafka: str
    ringlog: str
    versions: list = field(default_factory=list)

    def row(self):
        """As a row of the table of expectations, without a reason."""
        return f"| `{self.case}` | `{self.place}` | `{self.kafka}` | `{self.ringlog}` |"


@dataclass
class Expected:
    """A row of the table: patterns, and the reason."""

    case: str
    place: str
    kafka: str
    ringlog: str
    reason: str
    used: bool = False

    def matches(self, seen):
        """Whether the difference is the one that is expected."""
        return all(
            fnmatchcase(told, re.sub(r"\[", "[[]", pattern))
            for told, pattern in [
                (seen.case, self.case), (seen.place, self.place), (seen.kafka, self.kafka), (seen.ringlog, self.ringlog)
            ]
        )


def read_expectations(text):
    """The rows of the table in a document: four cells in backticks, then a reason."""
    row = re.compile(r"^\| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \| (.+) \|$", re.M)
    return [Expected(*cells) for cells in row.findall(text)]


def differing(kafka, ringlog, place=""):
    """The leaves that differ, as (place, Kafka's, Ringlog's). What only one side has is told as a whole, and where error
    codes differ, they alone: the rest follows from them."""
    if isinstance(kafka, dict) and isinstance(ringlog, dict):
        if kafka.get("error_code") != ringlog.get("error_code"):
            kafka, ringlog = ({"error_code": side.get("error_code", ABSENT)} for side in (kafka, ringlog))
        for key in [*kafka, *(key for key in ringlog if key not in kafka)]:
            inner = f"{place}.{key}" if place else key
            yield from differing(kafka.get(key, ABSENT), ringlog.get(key, ABSENT), inner)
    elif isinstance(kafka, list) and isinstance(ringlog, list):
        if len(kafka) != len(ringlog):
            yield f"{place}#", str(len(kafka)), str(len(ringlog))
        for at, pair in enumerate(zip(kafka, ringlog)):
            yield from differing(*pair, f"{place}[{at}]")
    elif kafka != ringlog:
        yield place or "answer", told(kafka), told(ringlog)


def told(value):
    """A value in few words."""
    if isinstance(value, dict):
        return "something"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return str(value)


def compare(kafka, ringlog):
    """The differences of what two sides saw, those of the same kind together."""
    found = {}
    for label, version in sorted(kafka.keys() | ringlog.keys(), key=str):
        sides = (side.get((label, version), ABSENT) for side in (kafka, ringlog))
        for place, *values in differing(*sides):
            one = found.setdefault((label, place, *values), Difference(label, place, *values))
            one.versions.append(version)
    return sorted(found.values(), key=lambda one: (one.case, one.place))


def unexpected(differences, expectations):
    """The differences that no row expects. Rows that expect one are marked as used."""
    new = []
    for one in differences:
        rows = [row for row in expectations if row.matches(one)]
        for row in rows:
            row.used = True
        if not rows:
            new.append(one)
    return new

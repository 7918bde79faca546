"""HdrHistogram's interval logs (.hlog), as far as `ringlog bench` writes them: version 2, compressed."""

import base64
import collections
import math
import struct
import zlib
from dataclasses import dataclass

COMPRESSED_COOKIE = 0x1C849304
COOKIE = 0x1C849303
# The lowest byte says how counts are written.
COOKIE_MASK = 0xFFFFFF0F


@dataclass
class Interval:
    """One line of a log: when it began (seconds since the epoch), how long it lasted, and how often each value was seen."""

    start: float
    seconds: float
    counts: dict


def read(path, tag):
    """The intervals of one tag."""
    base, intervals = 0.0, []
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("#[BaseTime:"):
            base = float(line.split()[1])
        if line.startswith(f"Tag={tag},"):
            _, start, seconds, _, payload = line.split(",")
            intervals.append(Interval(base + float(start), float(seconds), counts(base64.b64decode(payload))))
    return intervals


def counts(data):
    """How often each value was seen; a value stands for all that are told as it."""
    cookie, length = struct.unpack(">II", data[:8])
    assert cookie & COOKIE_MASK == COMPRESSED_COOKIE & COOKIE_MASK, f"no compressed histogram: {cookie:#x}"
    data = zlib.decompress(data[8 : 8 + length])
    cookie, length, _, digits, lowest, _, _ = struct.unpack(">IIIIQQd", data[:40])
    assert cookie & COOKIE_MASK == COOKIE & COOKIE_MASK, f"no histogram: {cookie:#x}"
    unit = int(math.log2(lowest))
    half = math.ceil(math.log2(2 * 10**digits)) - 1
    seen, index = {}, 0
    for number in _numbers(data[40 : 40 + length]):
        if number < 0:
            index -= number
            continue
        if number:
            seen[_value(index, half, unit)] = number
        index += 1
    return seen


def _numbers(data):
    """Zigzag numbers of up to nine bytes, the ninth of which is whole."""
    at = 0
    while at < len(data):
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte if shift == 56 else byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift == 63:
                break
        yield number >> 1 ^ -(number & 1)


def _value(index, half, unit):
    """The highest value that is counted at an index."""
    bucket, sub = (index >> half) - 1, (index & ((1 << half) - 1)) + (1 << half)
    if bucket < 0:
        bucket, sub = 0, sub - (1 << half)
    return (sub << (bucket + unit)) + (1 << (bucket + unit)) - 1


def merged(intervals):
    """All counts together."""
    together = collections.Counter()
    for interval in intervals:
        together.update(interval.counts)
    return together


def quantile(seen, share):
    """The value that `share` of all don't exceed."""
    wanted, passed = math.ceil(sum(seen.values()) * share), 0
    for value in sorted(seen):
        passed += seen[value]
        if passed >= wanted:
            return value
    return 0


# The heat map: a column an interval, a row a step of latency.
CELL = (4, 6)
STEPS_PER_TENFOLD = 10
MARGIN = 70


def heat_map(intervals, marks, title):
    """Darker is more often; a tick below is something that happened then (`marks`, seconds since the epoch)."""
    lowest, cells = _cells(intervals)
    rows = 1 + max((row for _, row in cells), default=0)
    width, height = MARGIN + CELL[0] * len(intervals), 20 + CELL[1] * rows
    most = max(cells.values(), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 10}" height="{height + 40}" font-size="10">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{MARGIN}" y="12">{title}</text>',
    ]
    for (column, row), count in sorted(cells.items()):
        shade = 235 - round(235 * math.log1p(count) / math.log1p(most))
        x, y = MARGIN + CELL[0] * column, height - CELL[1] * (row + 1)
        parts.append(f'<rect x="{x}" y="{y}" width="{CELL[0]}" height="{CELL[1]}" fill="rgb({shade},{shade},255)"/>')
    for row in range(0, rows, 5):
        label = 10 ** ((lowest + row) / STEPS_PER_TENFOLD) / 1e6
        parts.append(f'<text x="{MARGIN - 4}" y="{height - CELL[1] * row}" text-anchor="end">{label:.2g} ms</text>')
    start = intervals[0].start if intervals else 0
    for mark in marks:
        x = MARGIN + CELL[0] * (mark - start)
        if MARGIN <= x <= width:
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{height + 2}" y2="{height + 12}" stroke="red"/>')
    legend = f"{len(intervals)} intervals, a column each; red: segments were deleted"
    parts.append(f'<text x="{MARGIN}" y="{height + 26}">{legend}</text></svg>')
    return "\n".join(parts)


def _cells(intervals):
    """How often what was seen, by column and row, and the lowest step."""
    steps = collections.Counter()
    for column, interval in enumerate(intervals):
        for value, count in interval.counts.items():
            steps[column, int(math.log10(max(value, 1)) * STEPS_PER_TENFOLD)] += count
    lowest = min((step for _, step in steps), default=0)
    return lowest, collections.Counter({(column, step - lowest): count for (column, step), count in steps.items()})

"""What a record holds, so that whoever reads it can tell whether it is the right one, whole.

The rule is the one in tests/integration/src/content.rs: everything follows from the partition and the record's number
in it, its sequence.
"""

import zlib
from typing import NamedTuple, Optional

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

_ALPHABET = bytes(range(256)) * 2


class Record(NamedTuple):
    """A record as a client sees it."""

    key: Optional[bytes]
    value: Optional[bytes]
    headers: list
    timestamp_ms: int


def maker(first_timestamp_ms):
    """The rule for a topic whose first records have this timestamp."""
    return lambda partition, sequence: record(partition, sequence, first_timestamp_ms)


def record(partition, sequence, first_timestamp_ms):
    """The record with this number in this partition."""
    start = sequence * 31 % 256
    pad = _ALPHABET[start : start + (sequence * 7919 + partition * 104729) % 200]
    crc = zlib.crc32(pad)
    return Record(
        key=None if sequence % 50 == 49 else b"%d-%08d" % (partition, sequence),
        value=None if sequence % 100 == 98 else pad + b"%08x" % crc,
        headers=[
            ("partition", b"%d" % partition),
            ("crc", crc.to_bytes(4, "big")),
            ("empty", b""),
            ("null", None),
        ],
        timestamp_ms=first_timestamp_ms + sequence,
    )


def records_per_codec(total, partitions):
    """How many of the records each partition gets of each codec."""
    share, rest = divmod(total, partitions * len(CODECS))
    if rest or not share:
        fail(f"{total} records can't be dealt evenly to {partitions} partitions and {len(CODECS)} codecs")
    return share


class Checker:
    """Checks what comes out of each partition: every record once, in order, whole."""

    def __init__(self, partitions, expected, make):
        """`expected` records a partition, each as make(partition, sequence) says."""
        self.expected = expected
        self.make = make
        self.read = [0] * partitions

    def take(self, partition, offset, got):
        """Checks the next record of a partition."""
        sequence = self.read[partition]
        if offset != sequence:
            fail(f"partition {partition}: offset {offset} came where {sequence} was due")
        right = self.make(partition, sequence)
        for field in Record._fields:
            if getattr(got, field) != getattr(right, field):
                fail(
                    f"partition {partition}, offset {offset}: wrong {field}\n"
                    f"  got      {getattr(got, field)!r}\n  expected {getattr(right, field)!r}"
                )
        self.read[partition] += 1

    def finish(self):
        """Checks that nothing is missing and nothing is left over."""
        for partition, read in enumerate(self.read):
            if read != self.expected:
                fail(f"partition {partition}: {read} records were read, {self.expected} are due")


def fail(message):
    """Ends the script with a message: the answer of a check that didn't pass."""
    raise SystemExit(f"FAILED: {message}")


def _check_the_rule():
    """The record that the Rust side checks itself against."""
    right = record(3, 12, 1000)
    pad = bytes(range(116, 131))
    assert right.key == b"3-00000012", right
    assert right.value == pad + b"%08x" % zlib.crc32(pad), right
    assert right.timestamp_ms == 1012, right


_check_the_rule()

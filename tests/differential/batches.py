"""Record batches by hand, right and wrong, and a description of those that a broker gives back."""

import struct

HEAD = 61
_BODY_AT = 21


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data):
    """The checksum of batches."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def varint(number):
    """A signed number, zigzag."""
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(offset_delta, timestamp_delta=0, key=b"key", value=b"value", more=b""):
    """A record without headers."""
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta)]
    for part in (key, value):
        parts += [varint(-1)] if part is None else [varint(len(part)), part]
    body = b"".join(parts) + varint(0) + more
    return varint(len(body)) + body


def batch(timestamp_ms, count=1, value=b"value", **wrong):
    """A batch of `count` records a millisecond apart. What is wrong with it is named by field, and so is its producer."""
    records = wrong.get("records")
    if records is None:
        records = b"".join(record(at, at, value=value, key=wrong.get("key", b"key")) for at in range(count))
    body = struct.pack(
        ">hiqqqhii",
        wrong.get("attributes", 0),
        wrong.get("last_offset_delta", count - 1),
        timestamp_ms,
        wrong.get("max_timestamp_ms", timestamp_ms + count - 1),
        wrong.get("producer_id", -1),
        wrong.get("producer_epoch", -1),
        wrong.get("base_sequence", -1),
        wrong.get("record_count", count),
    ) + records
    crc = crc32c(body) ^ wrong.get("crc_error", 0)
    length = HEAD - 12 + len(records) + wrong.get("length_error", 0)
    base_offset = wrong.get("base_offset", 0)
    return struct.pack(">qiibI", base_offset, length, wrong.get("epoch", -1), wrong.get("magic", 2), crc) + body


def describe(data, base_ms):
    """What is in fetched bytes, batch by batch; times count from `base_ms`."""
    told = []
    while data:
        if len(data) < 12 or len(data) < 12 + struct.unpack(">i", data[8:12])[0]:
            told.append(f"a batch cut after {len(data)} bytes")
            break
        length = 12 + struct.unpack(">i", data[8:12])[0]
        told.append(_describe_one(data[:length], base_ms))
        data = data[length:]
    return told


def _describe_one(one, base_ms):
    base_offset, _, epoch, magic, crc = struct.unpack(">qiibI", one[:_BODY_AT])
    fields = struct.unpack(">hiqqqhii", one[_BODY_AT:HEAD])
    attributes, last, first_ms, max_ms, producer_id, producer_epoch, sequence, count = fields
    times = "the broker's times" if attributes & 8 else f"base+{first_ms - base_ms} to {max_ms - base_ms}"
    producer = "no producer" if producer_id < 0 else f"producer's epoch {producer_epoch}, sequence {sequence}"
    checksum = "" if crc == crc32c(one[_BODY_AT:]) else ", checksum wrong"
    content = one[HEAD:].hex() if len(one) < 200 else f"{len(one)} bytes, {crc32c(one[HEAD:]):08x}"
    return (
        f"{base_offset} to {base_offset + last}, {count} records, epoch {epoch}, magic {magic}, "
        f"attributes {attributes}, {times}, {producer}{checksum}: {content}"
    )

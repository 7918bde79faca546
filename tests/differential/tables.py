"""The protocol's messages, read out of the broker's own tables (net/wire/src): what they look like in every version.

The notation is described at the head of net/wire/src/message.rs. Requests are dictionaries; a field that isn't named
has its default. Answers are decoded into dictionaries that name every field of their version, with what is odd about
their bytes under "odd".
"""

import re
import struct
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

WIRE = Path(__file__).resolve().parents[2] / "net/wire/src"
# Tags that have a name in net/wire/src/message.rs.
TAGS = {"RINGLOG_TAG": int.from_bytes(b"Ring", "big"), "RINGLOG_TAG_2": int.from_bytes(b"Ring", "big") + 1}
# What a table says in Rust's words, in ours.
NAMES = {"OPERATIONS_NOT_ASKED": -(2**31), "ENDPOINT_BROKERS": 1, "CLIENT_METRICS": 16, "i32::MAX": 2**31 - 1, "true": True, "false": False}
INTEGERS = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q", "ErrorCode": ">h"}


@dataclass
class Field:
    """One line of a table."""

    name: str
    kind: str
    default: object
    since: int = 0
    until: int = 2**15
    null: int = 0
    tag: Optional[int] = None

    def is_in(self, version):
        """Whether the version has it."""
        return self.since <= version <= self.until


@dataclass
class Api:
    """One row of the table of APIs."""

    name: str
    key: int
    first: int
    last: int
    flexible: int
    structures: dict = field(default_factory=dict)

    @property
    def versions(self):
        """The versions that the broker serves."""
        return range(self.first, self.last + 1)


def read_apis():
    """Every API by name."""
    row = re.compile(r"^\s{4}(\w+) = (\d+), serves (\d+) to (\d+),\s*advertised from \d+, flexible from (\d+);", re.M)
    text = (WIRE / "api.rs").read_text()
    apis = {name: Api(name, *map(int, numbers)) for name, *numbers in row.findall(text)}
    shared = read_structures((WIRE / "messages.rs").read_text())
    files = {path.stem: read_structures(path.read_text()) for path in (WIRE / "messages").glob("*.rs")}
    for api in apis.values():
        stem = re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower()
        imported = files["alter_configs"] if stem == "incremental_alter_configs" else {}
        api.structures = shared | imported | files[stem]
    return apis


def read_structures(text):
    """The structures of a file by name, each a list of fields."""
    text = re.sub(r"//[^\n]*", "", text)
    start = re.compile(r"\b(?:message|structure) (\w+)(?:<'a>)?(?: for \w+)? \{([^}]*)\}")
    return {name: [read_field(line) for line in body.split(";") if line.strip()] for name, body in start.findall(text)}


def read_field(line):
    """A line such as `rack_id: &'a str, since 11, else ignored`."""
    name, rest = line.strip().split(":", 1)
    words = [word.strip() for word in re.split(r",(?![^(<]*[)>])", rest)]
    kind, _, default = (part.strip() for part in words[0].partition(" = "))
    kind = kind.replace("<'a>", "").replace("&'a ", "")
    told = Field(name.strip(), kind, read_default(kind, default))
    for word in words[1:]:
        what, _, number = word.partition(" ")
        if what in ("since", "until", "null", "tag"):
            setattr(told, what, TAGS[number] if number in TAGS else int(number))
    return told


def read_default(kind, text):
    """The default that a table names, or that of the type; a structure's is an empty dictionary."""
    if text == "":
        simple = {"bool": False, "str": "", "[u8]": b"", "Uuid": uuid.UUID(int=0)}
        if kind.startswith("Vec"):
            return []
        return None if kind.startswith("Option") else simple.get(kind, 0 if kind in INTEGERS else {})
    if text.startswith("Some("):
        return {'Some("")': "", "Some(&[])": b"", "Some(Vec::new())": []}[text]
    return NAMES[text] if text in NAMES else int(text.replace("_", ""))


def uvarint(number):
    """An unsigned number in as few bytes as it takes."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Encoder:
    """Writes one message of a version."""

    def __init__(self, api, version):
        self.api = api
        self.version = version
        self.flexible = version >= api.flexible

    def structure(self, name, values):
        """A structure's fields in order, and its tagged fields."""
        fields = [one for one in self.api.structures[name] if one.is_in(self.version)]
        unknown = set(values) - {one.name for one in self.api.structures[name]}
        if unknown:
            raise KeyError(f"{name} has no {unknown}")
        out = b"".join(
            self.value(one.kind, values.get(one.name, one.default)) for one in fields if one.tag is None
        )
        if self.flexible:
            out += self.tagged([one for one in fields if one.tag is not None], values)
        return out

    def tagged(self, fields, values):
        """The tagged fields that aren't at their defaults."""
        given = [one for one in fields if one.name in values and values[one.name] != one.default]
        out = uvarint(len(given))
        for one in given:
            body = self.value(one.kind, values[one.name])
            out += uvarint(one.tag) + uvarint(len(body)) + body
        return out

    def value(self, kind, value):
        """A value of a type."""
        if isinstance(value, Raw):
            return value.bytes
        if kind in INTEGERS:
            return struct.pack(INTEGERS[kind], value)
        if kind == "bool":
            return struct.pack(">?", value)
        if kind == "Uuid":
            return value.bytes
        if kind.startswith("Option<"):
            return self.nullable(kind[7:-1], value)
        if kind == "str":
            return self.counted(None if value is None else value.encode(), ">h")
        if kind == "[u8]":
            return self.counted(value, ">i")
        if kind.startswith("Vec<"):
            return self.array(kind[4:-1], value)
        return self.structure(kind, value)

    def nullable(self, kind, value):
        """A value that may be null. Strings, bytes and arrays say so by their length, structures by a byte before them."""
        if kind not in self.api.structures:
            return self.value(kind, value)
        return b"\xff" if value is None else b"\x01" + self.structure(kind, value)

    def counted(self, value, size):
        """Bytes after their length."""
        length = -1 if value is None else len(value)
        head = uvarint(length + 1) if self.flexible else struct.pack(size, length)
        return head + (value or b"")

    def array(self, kind, values):
        """Values after their count."""
        count = -1 if values is None else len(values)
        head = uvarint(count + 1) if self.flexible else struct.pack(">i", count)
        return head + b"".join(self.value(kind, value) for value in values or [])


@dataclass
class Raw:
    """Bytes that stand where a value should."""

    bytes: bytes


class Malformed(Exception):
    """Bytes that aren't what they should be."""


class Decoder:
    """Reads one message of a version."""

    def __init__(self, api, version, data):
        self.api = api
        self.version = version
        self.flexible = version >= api.flexible
        self.data = data
        self.at = 0
        self.odd = []

    def take(self, count):
        """The next bytes."""
        if count < 0 or self.at + count > len(self.data):
            raise Malformed(f"{count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def uvarint(self):
        """An unsigned number."""
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def message(self, name):
        """The whole message."""
        values = self.structure(name)
        if self.at != len(self.data):
            self.odd.append(f"{len(self.data) - self.at} bytes after the end")
        if self.odd:
            values["odd"] = self.odd
        return values

    def structure(self, name):
        """A structure's fields and tagged fields."""
        fields = [one for one in self.api.structures[name] if one.is_in(self.version)]
        values = {one.name: self.value(one.kind) for one in fields if one.tag is None}
        if self.flexible:
            self.tagged(name, {one.tag: one for one in fields if one.tag is not None}, values)
        return values

    def tagged(self, name, known, values):
        """Tagged fields: those that the table knows, and a word on others."""
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            end = self.at + size
            if tag in known:
                values[known[tag].name] = self.value(known[tag].kind)
            else:
                self.odd.append(f"tag {tag} in {name}")
                self.take(size)
            if self.at != end:
                raise Malformed(f"tag {tag} of {name} has another size than it says")

    def value(self, kind):
        """A value of a type."""
        if kind in INTEGERS:
            size = INTEGERS[kind]
            return struct.unpack(size, self.take(struct.calcsize(size)))[0]
        if kind == "bool":
            return self.take(1) != b"\0"
        if kind == "Uuid":
            return uuid.UUID(bytes=self.take(16))
        if kind.startswith("Option<"):
            return self.nullable(kind[7:-1])
        if kind == "str":
            got = self.counted(">h")
            return got if got is None else got.decode()
        if kind == "[u8]":
            return self.counted(">i")
        if kind.startswith("Vec<"):
            count = self.count(">i")
            return None if count < 0 else [self.value(kind[4:-1]) for _ in range(count)]
        return self.structure(kind)

    def nullable(self, kind):
        """A value that may be null."""
        if kind not in self.api.structures:
            return self.value(kind)
        return self.structure(kind) if struct.unpack(">b", self.take(1))[0] >= 0 else None

    def count(self, size):
        """A length or count; -1 is null."""
        if self.flexible:
            return self.uvarint() - 1
        return struct.unpack(size, self.take(struct.calcsize(size)))[0]

    def counted(self, size):
        """Bytes after their length."""
        count = self.count(size)
        return None if count < 0 else self.take(count)


APIS = read_apis()


def header(key, version, flexible, correlation_id, client_id=b"differential"):
    """A request's header; the client's name never takes compact form."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", key, version, correlation_id) + name + (b"\0" if flexible else b"")


def request(api, version, values, correlation_id, more=b""):
    """A request without its size."""
    coder = Encoder(api, version)
    head = header(api.key, version, coder.flexible, correlation_id)
    return head + coder.structure(f"{api.name}Request", values) + more


def response(api, version, data):
    """A response's fields, without its header."""
    decoder = Decoder(api, version, data)
    decoder.take(4)
    if decoder.flexible and api.name != "ApiVersions":
        for _ in range(decoder.uvarint()):
            decoder.odd.append(f"tag {decoder.uvarint()} in the header")
            decoder.take(decoder.uvarint())
    return decoder.message(f"{api.name}Response")

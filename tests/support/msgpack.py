"""Enough msgpack to read a heartbeat and to write one."""
import struct


class Malformed(ValueError):
    pass


def loads(data):
    value, at = _read(data, 0)
    if at != len(data):
        raise Malformed("%d bytes behind the value" % (len(data) - at))
    return value


_SIZED = {0xc4: ">B", 0xc5: ">H", 0xc6: ">I", 0xd9: ">B", 0xda: ">H", 0xdb: ">I", 0xdc: ">H", 0xdd: ">I", 0xde: ">H", 0xdf: ">I"}
_NUMBERS = {0xca: ">f", 0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
_CONSTANTS = {0xc0: None, 0xc2: False, 0xc3: True}


def _read(data, at):
    first = data[at]
    at += 1
    if first <= 0x7f:
        return first, at
    if first >= 0xe0:
        return first - 256, at
    if first in _CONSTANTS:
        return _CONSTANTS[first], at
    if first in _NUMBERS:
        form = _NUMBERS[first]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if first in _SIZED:
        form = _SIZED[first]
        size = struct.unpack_from(form, data, at)[0]
        at += struct.calcsize(form)
        kind = "text" if first in (0xd9, 0xda, 0xdb) else "bytes" if first <= 0xc6 else "list" if first <= 0xdd else "map"
    elif 0x80 <= first <= 0x8f:
        kind, size = "map", first & 0x0f
    elif 0x90 <= first <= 0x9f:
        kind, size = "list", first & 0x0f
    elif 0xa0 <= first <= 0xbf:
        kind, size = "text", first & 0x1f
    else:
        raise Malformed("byte 0x%02x" % first)
    if kind in ("text", "bytes"):
        if at + size > len(data):
            raise Malformed("text is cut off")
        piece = data[at:at + size]
        return (piece.decode() if kind == "text" else piece), at + size
    if kind == "list":
        items = []
        for _ in range(size):
            item, at = _read(data, at)
            items.append(item)
        return items, at
    found = {}
    for _ in range(size):
        key, at = _read(data, at)
        found[key], at = _read(data, at)
    return found, at


def dumps(value):
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if 0 <= value <= 0x7f:
            return bytes([value])
        return b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\xdb" + struct.pack(">I", len(text)) + text
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, (list, tuple)):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(dumps(item) for item in value)
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(dumps(k) + dumps(v) for k, v in value.items())

"""Reads the one field of a SentencePiece model that the Python package does not give."""


def varint(data: bytes, at: int):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def charsmap(model: bytes) -> bytes:
    """normalizer_spec (3) . precompiled_charsmap (2)"""
    spec = next(value for number, value in fields(model) if number == 3)
    return next((value for number, value in fields(spec) if number == 2), b"")

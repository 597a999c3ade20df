"""The four payload encodings of CRS2, written from the protocol text for the tests alone.

gzip comes from zlib; snappy and lz4 are pure Python: encoders that store, decoders that read everything
the protocol allows. The module must never import anything of the broker, or it would repeat its mistakes.
"""

import ctypes
import ctypes.util
import struct
import zlib

NONE, GZIP, SNAPPY, LZ4 = 0, 1, 2, 3
XERIAL_MAGIC = bytes.fromhex("82534e4150505900")
LZ4_MAGIC = 0x184D2204
SNAPPY_LITERAL_MAX = 65536


class CodecError(Exception):
    """The bytes break a rule of the protocol."""


# ---- checksums ------------------------------------------------------------------------------------


def _crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc32c_table()


def crc32c_slow(data):
    crc = 0xFFFFFFFF
    table = _CRC_TABLE
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _load_isal():
    # Only for speed on large payloads; test_client_codec compares it with the slow form.
    name = ctypes.util.find_library("isal") or "libisal.so.2"
    try:
        function = ctypes.CDLL(name).crc32_iscsi
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint]
    function.restype = ctypes.c_uint
    return function


_ISAL = _load_isal()


def crc32c(data):
    if len(data) < 4096 or _ISAL is None:
        return crc32c_slow(data)
    return _ISAL(bytes(data), len(data), 0xFFFFFFFF) ^ 0xFFFFFFFF


_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_M = 0xFFFFFFFF


def _rotate(value, bits):
    return ((value << bits) | (value >> (32 - bits))) & _M


def xxh32(data, seed=0):
    position, length = 0, len(data)
    if length >= 16:
        lanes = [(seed + _P1 + _P2) & _M, (seed + _P2) & _M, seed & _M, (seed - _P1) & _M]
        for position in range(0, length - 15, 16):
            words = struct.unpack_from("<4I", data, position)
            for lane in range(4):
                lanes[lane] = (_rotate((lanes[lane] + words[lane] * _P2) & _M, 13) * _P1) & _M
        position += 16
        a, b, c, d = lanes
        value = (_rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)) & _M
    else:
        value = (seed + _P5) & _M
    value = (value + length) & _M
    while position + 4 <= length:
        (word,) = struct.unpack_from("<I", data, position)
        value = (_rotate((value + word * _P3) & _M, 17) * _P4) & _M
        position += 4
    for byte in data[position:]:
        value = (_rotate((value + byte * _P5) & _M, 11) * _P1) & _M
    value = ((value ^ (value >> 15)) * _P2) & _M
    value = ((value ^ (value >> 13)) * _P3) & _M
    return value ^ (value >> 16)


# ---- gzip -----------------------------------------------------------------------------------------


def gzip_encode(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def gzip_decode(data, limit):
    out = b""
    while True:
        unpacker = zlib.decompressobj(31)
        try:
            out += unpacker.decompress(data, limit + 1 - len(out))
        except zlib.error as problem:
            raise CodecError(f"gzip: {problem}") from None
        if len(out) > limit:
            raise CodecError("gzip: more bytes than announced")
        if not unpacker.eof:
            raise CodecError("gzip: cut short")
        data = unpacker.unused_data
        if not data:
            return out


# ---- snappy ---------------------------------------------------------------------------------------


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def snappy_encode(data):
    out = [_varint(len(data))]
    for start in range(0, len(data), SNAPPY_LITERAL_MAX):
        piece = data[start : start + SNAPPY_LITERAL_MAX]
        count = len(piece) - 1
        if count < 60:
            out.append(bytes([count << 2]))
        else:
            out.append(bytes([61 << 2]) + struct.pack("<H", count))
        out.append(piece)
    return b"".join(out)


def xerial_encode(data, block=32768):
    out = [XERIAL_MAGIC, struct.pack(">II", 1, 1)]
    for start in range(0, len(data), block):
        piece = snappy_encode(data[start : start + block])
        out.append(struct.pack(">I", len(piece)) + piece)
    return b"".join(out)


def _copy_back(out, distance, length):
    if distance == 0 or distance > len(out):
        raise CodecError("copy from before the start")
    start = len(out) - distance
    if distance >= length:
        out += out[start : start + length]
        return
    pattern = bytes(out[start:])
    out += (pattern * (length // distance + 1))[:length]


def _snappy_block(data, limit):
    size = shift = position = 0
    while True:
        if position >= len(data) or shift > 28:
            raise CodecError("snappy: bad length")
        byte = data[position]
        position += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise CodecError("snappy: longer than announced")
    out = bytearray()
    while position < len(data):
        tag = data[position]
        position += 1
        kind = tag & 3
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                width = length - 59
                length = int.from_bytes(data[position : position + width], "little")
                position += width
            length += 1
            piece = data[position : position + length]
            if len(piece) != length:
                raise CodecError("snappy: literal cut short")
            out += piece
            position += length
        else:
            width = (1, 1, 2, 4)[kind]
            tail = data[position : position + width]
            if len(tail) != width:
                raise CodecError("snappy: copy cut short")
            position += width
            if kind == 1:
                _copy_back(out, (tag >> 5) << 8 | tail[0], (tag >> 2 & 7) + 4)
            else:
                _copy_back(out, int.from_bytes(tail, "little"), (tag >> 2) + 1)
        if len(out) > size:
            raise CodecError("snappy: more bytes than announced")
    if len(out) != size:
        raise CodecError("snappy: fewer bytes than announced")
    return bytes(out)


def snappy_decode(data, limit):
    if data[:8] != XERIAL_MAGIC:
        return _snappy_block(data, limit)
    if len(data) < 16:
        raise CodecError("snappy: header cut short")
    out, position = [], 16
    while position < len(data):
        if position + 4 > len(data):
            raise CodecError("snappy: block length cut short")
        (length,) = struct.unpack_from(">I", data, position)
        block = data[position + 4 : position + 4 + length]
        if len(block) != length:
            raise CodecError("snappy: block cut short")
        out.append(_snappy_block(block, limit))
        position += 4 + length
    return b"".join(out)


# ---- lz4 ------------------------------------------------------------------------------------------


def lz4_encode(data):
    head = bytes([0x64, 0x70])
    out = [struct.pack("<I", LZ4_MAGIC), head, bytes([xxh32(head) >> 8 & 0xFF])]
    for start in range(0, len(data), 4 << 20):
        piece = data[start : start + (4 << 20)]
        out.append(struct.pack("<I", len(piece) | 0x80000000) + piece)
    out.append(struct.pack("<II", 0, xxh32(data)))
    return b"".join(out)


def _lz4_length(block, position, value):
    if value != 15:
        return value, position
    while True:
        if position >= len(block):
            raise CodecError("lz4: length cut short")
        byte = block[position]
        position += 1
        value += byte
        if byte != 255:
            return value, position


def _lz4_block(block, out, limit):
    position = 0
    while True:
        if position >= len(block):
            raise CodecError("lz4: block cut short")
        token = block[position]
        length, position = _lz4_length(block, position + 1, token >> 4)
        piece = block[position : position + length]
        if len(piece) != length:
            raise CodecError("lz4: literals cut short")
        out += piece
        position += length
        if position == len(block):
            return
        if position + 2 > len(block):
            raise CodecError("lz4: distance cut short")
        distance = block[position] | block[position + 1] << 8
        length, position = _lz4_length(block, position + 2, token & 15)
        _copy_back(out, distance, length + 4)
        if len(out) > limit:
            raise CodecError("lz4: more bytes than announced")


def _lz4_head(data):
    """Returns (flags, position after the descriptor)."""
    if len(data) < 7 or struct.unpack_from("<I", data)[0] != LZ4_MAGIC:
        raise CodecError("lz4: not a frame")
    flags, sizes = data[4], data[5]
    if flags >> 6 != 1 or flags & 0x03 or sizes & 0x8F or not 4 <= sizes >> 4 <= 7:
        raise CodecError("lz4: descriptor")
    end = 6 + (8 if flags & 0x08 else 0)
    if len(data) <= end or data[end] != xxh32(data[4:end]) >> 8 & 0xFF:
        raise CodecError("lz4: descriptor checksum")
    return flags, end + 1


def lz4_decode(data, limit):
    flags, position = _lz4_head(data)
    out = bytearray()
    while True:
        if position + 4 > len(data):
            raise CodecError("lz4: cut short")
        (size,) = struct.unpack_from("<I", data, position)
        position += 4
        if size == 0:
            break
        stored, size = size >> 31, size & 0x7FFFFFFF
        block = data[position : position + size]
        if len(block) != size:
            raise CodecError("lz4: block cut short")
        position += size
        if flags & 0x10:
            if struct.unpack_from("<I", data, position)[0] != xxh32(block):
                raise CodecError("lz4: block checksum")
            position += 4
        if stored:
            out += block
        else:
            # Linked blocks copy from earlier ones; independent ones may not, which is not ours to judge.
            _lz4_block(block, out, limit)
        if len(out) > limit:
            raise CodecError("lz4: more bytes than announced")
    if flags & 0x04:
        if data[position : position + 4] != struct.pack("<I", xxh32(bytes(out))):
            raise CodecError("lz4: content checksum")
        position += 4
    if flags & 0x08 and struct.unpack_from("<Q", data, 6)[0] != len(out):
        raise CodecError("lz4: content size")
    if position != len(data):
        raise CodecError("lz4: bytes after the frame")
    return bytes(out)


# ---- by id ----------------------------------------------------------------------------------------

_ENCODERS = {NONE: bytes, GZIP: gzip_encode, SNAPPY: snappy_encode, LZ4: lz4_encode}
_DECODERS = {GZIP: gzip_decode, SNAPPY: snappy_decode, LZ4: lz4_decode}


def compress(algorithm, data):
    return _ENCODERS[algorithm](data)


def decompress(algorithm, data, decoded_length):
    out = data if algorithm == NONE else _DECODERS[algorithm](data, decoded_length)
    if len(out) != decoded_length:
        raise CodecError("decoded length differs from the announced one")
    return out

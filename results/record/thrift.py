"""Read the headers of Parquet pages, in Thrift's compact protocol, to check the declared sizes.

Arrow trusts these headers and allocates as many bytes as they declare. The sizes in the footer may
differ from the sizes in these headers. If a field has an unexpected type, Arrow skips it; if two
fields have the same number, Arrow takes the last one; Arrow truncates numbers that are too wide. So
this module refuses every header that Arrow might read differently.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from dataclasses import dataclass

MAX_DEPTH = 8
"""Maximum depth of nested structures in a header; in Parquet, the depth is three."""
_TRUE, _FALSE, _BYTE, _I32, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 5, 7, 8, 12
_NUMBERS = {4: 1 << 15, _I32: 1 << 31, 6: 1 << 63}
"""The kinds of integers and their limits."""
_MAX_FIELD = (1 << 15) - 1
_SIZES_DEPTH = 2
"""Down to this depth, all integers are sizes and counts of 32 bits. Statistics are deeper."""
_VARINT_BYTES, _GOES_ON = 10, 0x80
"""Maximum number of bytes of an integer, and the bit that says that more bytes follow."""
_UNPACKED, _PACKED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8
"""Field numbers in `PageHeader`. Three fields are structures, and the first field of such a
structure is the number of values."""
_KIND_OF = {
    (0, _UNPACKED): _I32, (0, _PACKED): _I32, (1, 1): _I32,
    (0, _DATA): _STRUCT, (0, _DICTIONARY): _STRUCT, (0, _DATA_2): _STRUCT,
}  # fmt: skip
"""Types by depth and field. Each structure in a header begins with the number of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHeader:
    """The sizes of a page: bytes of the header, bytes of the data, and the number of values."""

    header_bytes: int
    packed_bytes: int
    unpacked_bytes: int
    values: int


def page_header(data: bytes) -> PageHeader:
    """Read the page header at the start of the given bytes.

    Raises:
        ValueError: The bytes do not begin with a page header.
    """
    reader = _Reader(data)
    try:
        numbers = reader.structure(0)
    except IndexError:
        raise ValueError("the header of a page is incomplete") from None
    unpacked, packed = numbers.get((_UNPACKED,), -1), numbers.get((_PACKED,), -1)
    values = max(numbers.get((kind, 1), 0) for kind in (_DATA, _DICTIONARY, _DATA_2))
    if unpacked < 0 or packed < 0 or values < 0:
        raise ValueError("the header of a page has no size")
    return PageHeader(
        header_bytes=reader.at, packed_bytes=packed, unpacked_bytes=unpacked, values=values
    )


class _Reader:
    """A reader of one structure. It stores each integer under a path of field numbers."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def structure(self, depth: int) -> dict[tuple[int, ...], int]:
        if depth > MAX_DEPTH:
            raise ValueError("the header of a page is nested too deeply")
        numbers: dict[tuple[int, ...], int] = {}
        field, fields = 0, set[int]()
        while byte := self._byte():
            field = field + (byte >> 4) if byte >> 4 else _signed(self._varint())
            if field in fields or not 0 < field <= _MAX_FIELD:
                raise ValueError("the header of a page has an unknown or repeated field")
            fields.add(field)
            kind = byte & 0xF
            if (depth, field) in _KIND_OF and kind != _KIND_OF[depth, field]:
                raise ValueError("the header of a page has a field of another type")
            if kind in _NUMBERS:
                numbers[(field,)] = self._number(kind, depth)
            elif kind == _STRUCT:
                inner = self.structure(depth + 1)
                numbers |= {(field, *way): number for way, number in inner.items()}
            elif kind not in {_TRUE, _FALSE}:
                self._skip(kind)
        return numbers

    def _number(self, kind: int, depth: int) -> int:
        number = _signed(self._varint())
        if (depth < _SIZES_DEPTH and kind != _I32) or not -_NUMBERS[kind] <= number < _NUMBERS[
            kind
        ]:
            raise ValueError("the header of a page has a number that is too large")
        return number

    def _skip(self, kind: int) -> None:
        """Skip a value that affects no size; the headers of pages have no lists, sets or maps."""
        size = {_BYTE: 1, _DOUBLE: 8}.get(kind)
        if size is None and kind == _BINARY:
            size = self._varint()
        if size is None or self.at + size > len(self.data):
            raise ValueError("the header of a page has a value of an unknown kind or size")
        self.at += size

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        number = 0
        for place in range(_VARINT_BYTES):
            byte = self._byte()
            number |= (byte & ~_GOES_ON) << 7 * place
            if not byte & _GOES_ON:
                return number
        raise ValueError("a number in the header of a page is incomplete")


def _signed(number: int) -> int:
    """Decode a number from Thrift's zigzag encoding."""
    return number >> 1 ^ -(number & 1)

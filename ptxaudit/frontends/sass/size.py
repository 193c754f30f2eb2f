"""When a cubin is so large that it is read part by part."""

# Of a cubin up to this size nvdisasm takes half a gigabyte, and its functions another.
LARGEST_WHOLE = 8 << 20
# So much code goes into a part: its functions, with what is found of them, take some 170 bytes for each byte
# of it, and nvdisasm, which gets little else of the cubin, 55.
LARGEST_PART = 1 << 20
_TYPE_AT, _EXECUTABLE = 16, 2  # e_type, ET_EXEC
_CARRIED_PTX = b".nv_debug_ptx_txt"


def carries_ptx(data: bytes) -> bool:
    """Whether a cubin holds the PTX that it was assembled from."""
    return _CARRIED_PTX in data


def is_linked(data: bytes) -> bool:
    """Whether a cubin is ready to be loaded, so that no address in its code is left open."""
    return len(data) > _TYPE_AT and data[_TYPE_AT] == _EXECUTABLE


def is_read_in_parts(data: bytes) -> bool:
    """Whether a cubin is large.

    One that carries its PTX is read as a whole, since the PTX is of all functions, and so is one that is yet
    to be linked: nvdisasm crashes when it is asked for single functions of such a file.
    """
    return len(data) > LARGEST_WHOLE and is_linked(data) and not carries_ptx(data)

"""Decompressing what fatbins hold, never past the size that was stated (the only user of lz4, zstandard)."""

# What decompresses to less need not keep to a ratio.
UNCHECKED_BYTES = 1 << 25
_LZ4_LARGEST_RATIO = 255
_LZ4_SLACK = 64


def decompress_lz4(content: bytes, size: int) -> bytes:
    """A raw LZ4 block of ``size`` bytes; raises :class:`ValueError` in words when it is broken."""
    # Loaded when the first compressed entry is met: most inputs have none.
    import lz4.block

    if size > len(content) * _LZ4_LARGEST_RATIO + _LZ4_SLACK:
        raise ValueError(f"LZ4 cannot hold {size} bytes in {len(content)}")
    try:
        unpacked: bytes = lz4.block.decompress(content, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError) as error:
        raise ValueError(f"LZ4: {error}") from error
    return unpacked


def decompress_zstd(content: bytes, size: int) -> bytes:
    """A zstd frame of ``size`` bytes; raises :class:`ValueError` in words when it is broken."""
    import zstandard

    try:
        stated = zstandard.get_frame_parameters(content).content_size
        # The library allocates what the frame states before it looks further.
        if stated not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise ValueError(f"zstd: the frame states {stated} bytes")
        return zstandard.ZstdDecompressor().decompress(content, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(f"zstd: {error}") from error

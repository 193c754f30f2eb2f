"""Files that hold kernels: fatbins, host ELF files, static archives, zips, and binaries with kernels in them.

Each module reads one format from a seekable stream, member by member, and keeps nothing: what it hands out
is read, used and dropped before the next. What is malformed is a :class:`~ptxaudit.errors.BinaryFault`
with the offset, never another exception; ``content`` tells the formats apart.
"""

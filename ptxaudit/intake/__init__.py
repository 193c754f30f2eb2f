"""Where kernels come from: files, containers and caches, walked image by image.

A file is read by this package, not by ``cuobjdump -xelf``. Measured on libnccl 2.32.3 (474 MB, 412 cubins
and 54 PTX texts in 76 fatbins, LZ4; 2 cores, files in the page cache):

================================ ======= ============ ================ ======================
what                             time    peak memory  temporary files  stops at a broken part
================================ ======= ============ ================ ======================
``cuobjdump -xelf all``          6.6 s   1073 MB      622 MB           yes
own, every cubin and PTX in turn 0.9 s   427 MB       none             no
================================ ======= ============ ================ ======================

``cuobjdump`` also needs the file on a disk, which a member of a wheel is not, selects by a part of a name
only, and calls the cubins of ``sm_100f`` ``sm_100``. The largest cubin of libnccl has 134 MB: own reading
holds it compressed and decompressed, and nothing else. Out of the wheel, where the library is deflated, the
walk takes 450 MB and reads it twice (its section table is at its end). That what is found agrees with
cuobjdump is for ``tests/benchmarks/container_agreement.py`` to say.
"""

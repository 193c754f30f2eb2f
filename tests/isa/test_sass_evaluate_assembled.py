"""Kernels assembled by ptxas and evaluated instruction by instruction against the meaning of their PTX."""

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sass_driver import SassRun, ptxas

from ptxaudit.frontends.sass import load_cubin
from ptxaudit.ir.lanes import LANE_INDEX
from ptxaudit.isa.ptx import bitfields
from ptxaudit.isa.sass.evaluate_float import rounded_bits

pytestmark = pytest.mark.skipif(ptxas() is None, reason="needs ptxas")

OUT = 0x7F_8000_1000
WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
ARCHITECTURES = ("80", "90a", "100a", "103a", "120a")
CLUSTERED = ("90a", "100a", "103a", "120a")
RANK, SWIN_HIGH = 3, 0x100_0000
CLUSTER, CTA = (3, 1, 2), (23, 4, 7)

Reference = Callable[[int, int, int, int, int], int]


def s32(number: int) -> int:
    return ((number & WORD) ^ 1 << 31) - (1 << 31)


def s64(number: int) -> int:
    return ((number & LONG) ^ 1 << 63) - (1 << 63)


def shift(number: int, amount: int, bits: int) -> int:
    """``number >> amount`` or, for a negative amount, ``<<``, clamped as PTX does."""
    if amount < 0:
        return number << -amount if -amount < bits else 0
    return number >> min(amount, bits)


# PTX with inputs t (thread), n, m (32-bit) and w, v (64-bit); the width of the result; a reference.
STATEMENTS: list[tuple[str, int, Reference]] = [
    ("add.s32 $, %t, %n;", 32, lambda t, n, m, w, v: t + n),
    ("sub.s32 $, %n, %t;", 32, lambda t, n, m, w, v: n - t),
    ("add.s32 %x, %t, 77; sub.s32 $, %x, %n;", 32, lambda t, n, m, w, v: t + 77 - n),
    ("mul.lo.s32 $, %t, %n;", 32, lambda t, n, m, w, v: t * n),
    ("mad.lo.s32 $, %t, %n, %m;", 32, lambda t, n, m, w, v: t * n + m),
    ("mad.lo.s32 $, %t, -24, %m;", 32, lambda t, n, m, w, v: m - 24 * t),
    ("mul.hi.s32 $, %m, %n;", 32, lambda t, n, m, w, v: s32(m) * s32(n) >> 32),
    ("mul.hi.u32 $, %m, %n;", 32, lambda t, n, m, w, v: m * n >> 32),
    ("mad.hi.u32 $, %m, %n, %t;", 32, lambda t, n, m, w, v: (m * n >> 32) + t),
    ("mad.hi.s32 $, %m, %n, %t;", 32, lambda t, n, m, w, v: (s32(m) * s32(n) >> 32) + t),
    ("xor.b32 %x, %t, %n; mad.lo.s32 $, %x, 12, %m;", 32, lambda t, n, m, w, v: (t ^ n) * 12 + m),
    ("neg.s32 $, %n;", 32, lambda t, n, m, w, v: -n),
    ("abs.s32 $, %n;", 32, lambda t, n, m, w, v: abs(s32(n))),
    ("min.s32 $, %n, %m;", 32, lambda t, n, m, w, v: min(s32(n), s32(m))),
    ("max.s32 $, %n, %m;", 32, lambda t, n, m, w, v: max(s32(n), s32(m))),
    ("min.s32 %x, %n, %m; min.s32 $, %x, %t;", 32, lambda t, n, m, w, v: min(s32(n), s32(m), t)),
    ("min.u32 $, %n, %m;", 32, lambda t, n, m, w, v: min(n, m)),
    ("max.u32 $, %n, %t;", 32, lambda t, n, m, w, v: max(n, t)),
    ("add.s32 %x, %n, 5; max.s32 $, %x, %t;", 32, lambda t, n, m, w, v: max(s32(n + 5), t)),
    ("add.u32 %x, %n, %t; min.u32 $, %x, 9;", 32, lambda t, n, m, w, v: min(n + t & WORD, 9)),
    ("and.b32 $, %n, 0xff0;", 32, lambda t, n, m, w, v: n & 0xFF0),
    ("or.b32 %x, %n, %t; xor.b32 $, %x, %m;", 32, lambda t, n, m, w, v: (n | t) ^ m),
    ("not.b32 $, %n;", 32, lambda t, n, m, w, v: ~n),
    ("lop3.b32 $, %t, %n, %m, 0x6a;", 32, lambda t, n, m, w, v: (t & n) ^ m),
    ("shl.b32 $, %n, %t;", 32, lambda t, n, m, w, v: shift(n, -t, 32)),
    ("shl.b32 $, %n, 7;", 32, lambda t, n, m, w, v: n << 7),
    ("and.b32 %x, %m, 63; shl.b32 $, %n, %x;", 32, lambda t, n, m, w, v: shift(n, -(m & 63), 32)),
    ("and.b32 %x, %m, 63; shr.u32 $, %n, %x;", 32, lambda t, n, m, w, v: shift(n, m & 63, 32)),
    ("and.b32 %x, %m, 63; shr.s32 $, %n, %x;", 32, lambda t, n, m, w, v: shift(s32(n), m & 63, 32)),
    ("shr.s32 $, %n, 5;", 32, lambda t, n, m, w, v: s32(n) >> 5),
    ("shf.l.wrap.b32 $, %n, %m, %t;", 32, lambda t, n, m, w, v: (m << 32 | n) << (t & 31) >> 32),
    ("shf.r.wrap.b32 $, %n, %m, %t;", 32, lambda t, n, m, w, v: (m << 32 | n) >> (t & 31)),
    (
        "add.u32 %x,%t,7; shf.l.clamp.b32 $, %n, %m, %x;",
        32,
        lambda t, n, m, w, v: (m << 32 | n) << min(t + 7, 32) >> 32,
    ),
    (
        "add.u32 %x,%t,7; shf.r.clamp.b32 $, %n, %m, %x;",
        32,
        lambda t, n, m, w, v: (m << 32 | n) >> min(t + 7, 32),
    ),
    ("bfe.u32 $, %n, 4, 9;", 32, lambda t, n, m, w, v: n >> 4 & 0x1FF),
    ("bfe.s32 $, %n, 4, 9;", 32, lambda t, n, m, w, v: bitfields.extract(n, 4, 9, 32, True)),
    ("bfi.b32 $, %n, %m, 8, 5;", 32, lambda t, n, m, w, v: bitfields.insert(n, m, 8, 5, 32)),
    ("bfi.b32 $, %n, %m, %t, 3;", 32, lambda t, n, m, w, v: bitfields.insert(n, m, t, 3, 32)),
    ("prmt.b32 $, %n, %m, 0x3715;", 32, lambda t, n, m, w, v: bitfields.permute(n, m, 0x3715, "")),
    ("prmt.b32 $, %n, %m, %t;", 32, lambda t, n, m, w, v: bitfields.permute(n, m, t, "")),
    ("prmt.b32.f4e $, %n, %m, %t;", 32, lambda t, n, m, w, v: bitfields.permute(n, m, t, "f4e")),
    ("popc.b32 $, %n;", 32, lambda t, n, m, w, v: n.bit_count()),
    ("clz.b32 $, %n;", 32, lambda t, n, m, w, v: 32 - n.bit_length()),
    ("brev.b32 $, %n;", 32, lambda t, n, m, w, v: int(f"{n:032b}"[::-1], 2)),
    ("bfind.u32 $, %n;", 32, lambda t, n, m, w, v: n.bit_length() - 1),
    ("bfind.s32 $, %n;", 32, lambda t, n, m, w, v: bitfields.find_leading(n, 32, True, False)),
    ("bfind.shiftamt.u32 $, %n;", 32, lambda t, n, m, w, v: bitfields.find_leading(n, 32, False, True)),
    ("cvt.s32.s8 $, %n;", 32, lambda t, n, m, w, v: ((n & 0xFF) ^ 0x80) - 0x80),
    ("cvt.u32.u16 $, %n;", 32, lambda t, n, m, w, v: n & 0xFFFF),
    ("bmsk.clamp.b32 $, %t, 7;", 32, lambda t, n, m, w, v: bitfields.bit_mask(t, 7, False)),
    ("bmsk.wrap.b32 $, %m, %t;", 32, lambda t, n, m, w, v: bitfields.bit_mask(m, t, True)),
    ("szext.clamp.s32 $, %n, %t;", 32, lambda t, n, m, w, v: bitfields.extend_from(n, t, True, False)),
    ("szext.wrap.u32 $, %n, %t;", 32, lambda t, n, m, w, v: bitfields.extend_from(n, t, False, True)),
    ("setp.lt.s32 %p, %n, %m; selp.u32 $, %t, 9, %p;", 32, lambda t, n, m, w, v: t if s32(n) < s32(m) else 9),
    ("setp.ge.u32 %p, %n, %m; selp.u32 $, 5, %t, %p;", 32, lambda t, n, m, w, v: 5 if n >= m else t),
    (
        "setp.lt.s32 %p, %t, 12; setp.ne.and.s32 %p|%q, %n, %m, %p;"
        " selp.u32 %x, 1, 2, %p; selp.u32 $, %x, 3, %q;",
        32,
        lambda t, n, m, w, v: 3 if not (t < 12 and n == m) else 1 if n != m else 2,
    ),
    (
        "setp.lt.s32 %p, %t, 12; setp.gt.s32 %q, %t, 5; xor.pred %p, %p, %q; @%p add.s32 $, %n, 1;"
        " @!%p mov.b32 $, %m;",
        32,
        lambda t, n, m, w, v: n + 1 if (t < 12) != (t > 5) else m,
    ),
    ("setp.lt.s64 %p, %w, %v; selp.u32 $, %t, 9, %p;", 32, lambda t, n, m, w, v: t if s64(w) < s64(v) else 9),
    ("setp.ge.u64 %p, %w, %v; selp.u32 $, %t, 9, %p;", 32, lambda t, n, m, w, v: t if w >= v else 9),
    ("setp.eq.s64 %p, %w, %v; selp.u32 $, %t, 9, %p;", 32, lambda t, n, m, w, v: t if w == v else 9),
    ("setp.le.u64 %p, %w, 100; selp.u32 $, %t, 9, %p;", 32, lambda t, n, m, w, v: t if w <= 100 else 9),
    ("add.s64 $, %w, %v;", 64, lambda t, n, m, w, v: w + v),
    ("sub.s64 $, %w, %v;", 64, lambda t, n, m, w, v: w - v),
    ("add.s64 $, %w, -16;", 64, lambda t, n, m, w, v: w - 16),
    ("add.s64 $, %w, 0x123456789ab;", 64, lambda t, n, m, w, v: w + 0x123456789AB),
    ("add.s64 %y, %w, %v; add.s64 $, %y, %w;", 64, lambda t, n, m, w, v: 2 * w + v),
    ("cvt.u64.u32 %y, %t; sub.s64 %y, %y, %w; add.s64 $, %y, %v;", 64, lambda t, n, m, w, v: t - w + v),
    ("neg.s64 $, %w;", 64, lambda t, n, m, w, v: -w),
    ("mul.lo.s64 $, %w, %v;", 64, lambda t, n, m, w, v: w * v),
    ("mul.hi.u64 $, %w, %v;", 64, lambda t, n, m, w, v: w * v >> 64),
    ("mul.wide.s32 $, %n, %m;", 64, lambda t, n, m, w, v: s32(n) * s32(m)),
    ("mad.wide.u32 $, %n, %m, %w;", 64, lambda t, n, m, w, v: n * m + w),
    ("mad.wide.s32 $, %n, %t, %v;", 64, lambda t, n, m, w, v: s32(n) * t + v),
    ("mad.wide.s32 $, %t, -12, %v;", 64, lambda t, n, m, w, v: v - 12 * t),
    ("shl.b64 $, %w, %t;", 64, lambda t, n, m, w, v: w << t),
    ("and.b32 %x, %n, 127; shl.b64 $, %w, %x;", 64, lambda t, n, m, w, v: shift(w, -(n & 127), 64)),
    ("and.b32 %x, %n, 127; shr.u64 $, %w, %x;", 64, lambda t, n, m, w, v: shift(w, n & 127, 64)),
    ("and.b32 %x, %n, 127; shr.s64 $, %w, %x;", 64, lambda t, n, m, w, v: shift(s64(w), n & 127, 64)),
    ("shr.s64 $, %w, 37;", 64, lambda t, n, m, w, v: s64(w) >> 37),
    ("cvt.s64.s32 %y, %n; shl.b64 %y, %y, 4; add.s64 $, %y, %w;", 64, lambda t, n, m, w, v: 16 * s32(n) + w),
    ("cvt.u64.u32 %y, %n; shl.b64 %y, %y, 3; add.s64 $, %y, %w;", 64, lambda t, n, m, w, v: 8 * n + w),
    ("and.b64 %y, %w, 0x3ffff0; shr.u64 $, %y, 4;", 64, lambda t, n, m, w, v: (w & 0x3FFFF0) >> 4),
    ("min.s64 $, %w, %v;", 64, lambda t, n, m, w, v: min(s64(w), s64(v))),
    ("max.u64 $, %w, %v;", 64, lambda t, n, m, w, v: max(w, v)),
    ("setp.lt.s64 %p, %w, %v; selp.u64 $, %w, 5, %p;", 64, lambda t, n, m, w, v: w if s64(w) < s64(v) else 5),
    ("add.s64 $, %w, 0xfffffff0;", 64, lambda t, n, m, w, v: w + 0xFFFFFFF0),
    ("shfl.sync.idx.b32 $, %t, 5, 0x1f, -1;", 32, lambda t, n, m, w, v: 5),
    ("shfl.sync.bfly.b32 $, %t, 4, 0x1f, -1;", 32, lambda t, n, m, w, v: t ^ 4),
    ("shfl.sync.up.b32 $, %t, 3, 0, -1;", 32, lambda t, n, m, w, v: max(t - 3, t if t < 3 else 0)),
    (
        "shfl.sync.down.b32 $|%p, %t, 2, 0x1f, -1; @!%p mov.u32 $, 99;",
        32,
        lambda t, n, m, w, v: t + 2 if t < 30 else 99,
    ),
    ("redux.sync.add.u32 $, %t, -1;", 32, lambda t, n, m, w, v: 496),
    ("sub.s32 %x, %t, 7; redux.sync.min.s32 $, %x, -1;", 32, lambda t, n, m, w, v: -7),
    ("sub.s32 %x, %t, 7; redux.sync.max.u32 $, %x, -1;", 32, lambda t, n, m, w, v: WORD),
    ("add.u32 %x, %t, 32; redux.sync.and.b32 $, %x, -1;", 32, lambda t, n, m, w, v: 32),
    ("setp.gt.u32 %p, %t, 28; vote.sync.ballot.b32 $, %p, -1;", 32, lambda t, n, m, w, v: 0xE0000000),
    (
        "setp.gt.u32 %p, %t, 28; vote.sync.any.pred %q, %p, -1; selp.u32 $, 4, 5, %q;",
        32,
        lambda t, n, m, w, v: 4,
    ),
    (
        "setp.gt.u32 %p, %t, 28; vote.sync.all.pred %q, %p, -1; selp.u32 $, 4, 5, %q;",
        32,
        lambda t, n, m, w, v: 5,
    ),
    ("mov.u32 $, %lanemask_lt;", 32, lambda t, n, m, w, v: (1 << t) - 1),
    ("mov.u32 $, 0x3c00;", 32, lambda t, n, m, w, v: 0x3C00),
    ("mov.u32 $, 0x10;", 32, lambda t, n, m, w, v: 0x10),
    ("or.b32 %x, %m, 1; div.u32 $, %n, %x;", 32, lambda t, n, m, w, v: n // (m | 1)),
    ("add.u32 %x, %t, 3; rem.u32 $, %n, %x;", 32, lambda t, n, m, w, v: n % (t + 3)),
    ("div.u32 $, %n, 7;", 32, lambda t, n, m, w, v: n // 7),
    ("div.s32 $, %n, 24;", 32, lambda t, n, m, w, v: int(s32(n) / 24)),
    (
        "add.u32 %x, %t, 3; rem.s32 $, %n, %x;",
        32,
        lambda t, n, m, w, v: s32(n) - int(s32(n) / (t + 3)) * (t + 3),
    ),
    ("mov.u32 $, %ntid.x;", 32, lambda t, n, m, w, v: 32),
]
CLUSTER_STATEMENTS: list[tuple[str, int, Reference]] = [
    ("elect.sync %x|%p, -1; selp.u32 $, 8, 1, %p;", 32, lambda t, n, m, w, v: 8 if t == 0 else 1),
    ("elect.sync $|%p, -1;", 32, lambda t, n, m, w, v: 0),
    ("mov.u32 $, %cluster_ctaid.x;", 32, lambda t, n, m, w, v: CTA[0] % CLUSTER[0]),
    ("mov.u32 $, %cluster_ctaid.y;", 32, lambda t, n, m, w, v: CTA[1] % CLUSTER[1]),
    ("mov.u32 $, %cluster_ctaid.z;", 32, lambda t, n, m, w, v: CTA[2] % CLUSTER[2]),
    ("mov.u32 $, %cluster_nctarank;", 32, lambda t, n, m, w, v: 6),
    ("mov.u32 $, %cluster_ctarank;", 32, lambda t, n, m, w, v: RANK),
    (
        "mov.u32 %x, buffer; mad.lo.s32 %x, %t, 16, %x; mapa.shared::cluster.u32 $, %x, 1;",
        32,
        lambda t, n, m, w, v: (1 << 24) + 0x400 + 16 * t,
    ),
    (
        "mov.u32 %x, buffer; cvt.u64.u32 %y, %x; cvta.shared.u64 $, %y;",
        64,
        lambda t, n, m, w, v: (SWIN_HIGH << 32) + (RANK << 24) + 0x400,
    ),
]
LOOP = (
    "mov.u32 %x, 0; mov.u32 %z, 0; mov.u32 %a, buffer;\n"
    "again: and.b32 %b, %z, 3; shl.b32 %b, %b, 13; add.s32 %b, %b, %a;"
    " shr.u32 %c, %z, 2; and.b32 %c, %c, 1;\n"
    "mad.lo.s32 %b, %t, 8, %b; xor.b32 %b, %b, %c; cvt.u64.u32 %y, %z; shl.b64 %y, %y, 7;"
    " cvt.u64.u32 %e, %t; shl.b64 %e, %e, 2; add.s64 %y, %y, %e; add.s64 %y, %y, %out;\n"
    "st.global.u32 [%y], %b; add.s32 %z, %z, 1; setp.ne.s32 %p, %z, %n; @%p bra again;"
)
DECLARATIONS = (
    ".reg .b32 %t, %n, %m, %x, %z, %a, %b, %c;\n.reg .b64 %w, %v, %y, %e, %out, %here;\n"
    ".reg .pred %p, %q;\n.shared .align 1024 .b8 buffer[32768];\n"
    "ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; ld.param.u32 %m, [m];"
    " ld.param.u64 %w, [w]; ld.param.u64 %v, [v]; mov.u32 %t, %tid.x;\n"
)


def assemble(body: str, architecture: str, folder: Path) -> bytes:
    text = (
        f".version {'8.6' if architecture == '80' else '9.0'}\n.target sm_{architecture}\n.address_size 64\n"
        ".visible .entry kernel(.param .u64 out, .param .u32 n, .param .u32 m,"
        " .param .u64 w, .param .u64 v)\n"
        "{\n" + DECLARATIONS + body + "\nret;\n}\n"
    )
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(text)
    tool = ptxas()
    assert tool is not None
    subprocess.run([tool, f"-arch=sm_{architecture}", source, "-o", cubin], check=True)
    return cubin.read_bytes()


def constants(architecture: str, n: int, m: int, w: int, v: int) -> dict[int, int]:
    """Constant bank 0 as the driver fills it: launch shape, stack and parameters."""
    number = int(architecture.rstrip("a"))
    start = {80: 0x160, 90: 0x210}.get(number, 0x380)
    block = 0x360 if number >= 100 else 0
    held = dict.fromkeys(range(0x400), 0)
    words = [(start, OUT, 8), (start + 8, n, 4), (start + 12, m, 4), (start + 16, w, 8), (start + 24, v, 8)]
    words += [(block, 32, 4), (block + 4, 1, 4), (block + 8, 1, 4)]
    shape, rank, reciprocal = (0x144, 0x188, 0x154) if number == 90 else (0x2A0, 0x2CC, 0x2B4)
    if number >= 90:
        words += [(shape + 4 * axis, size, 4) for axis, size in enumerate(CLUSTER)]
        words += [(reciprocal + 4 * axis - 4, rounded_bits(1 / CLUSTER[axis]), 4) for axis in (1, 2)]
        words.append((rank, 6, 4))
    for place, value, width in words:
        for byte in range(width):
            held[place + byte] = value >> (8 * byte) & 0xFF
    return held


def execute(cubin: bytes, architecture: str, n: int, m: int, w: int, v: int) -> dict[int, int]:
    function = load_cubin(cubin, "kernel.cubin").functions[0]
    special = {
        "SR_TID.X": LANE_INDEX,
        "SR_LANEID": LANE_INDEX,
        "SR_CgaCtaId": RANK,
        "SR_CgaSize": 0,
        **{f"SR_CTAID.{axis}": index for axis, index in zip("XYZ", CTA, strict=True)},
        "SR_SWINHI": SWIN_HIGH,
        "SR_LTMASK": (LANE_INDEX * 0 + 1 << LANE_INDEX) - 1,
    }
    return SassRun(function, constants(architecture, n, m, w, v), special).run()


def read(memory: dict[int, int], place: int, width: int) -> int:
    return sum(memory[place + byte] << (8 * byte) for byte in range(width))


def inputs(seed: int) -> tuple[int, int, int, int]:
    source = random.Random(seed)
    edges = (0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, WORD, WORD - 1)

    def word() -> int:
        return source.choice(edges) if source.random() < 0.4 else source.getrandbits(32)

    w, v = word() << 32 | word(), word() << 32 | word()
    return word(), word(), w, w if seed == 3 else v


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_statements(architecture: str, tmp_path: Path) -> None:
    statements = STATEMENTS + (CLUSTER_STATEMENTS if architecture in CLUSTERED else [])
    lines = []
    for index, (text, bits, _) in enumerate(statements):
        kind = "%x1" if bits == 32 else "%y1"
        width = bits // 8
        scoped = text.replace("$", kind)
        lines.append(
            f"{{ .reg .b32 %x1; .reg .b64 %y1; {scoped}"
            f" mad.wide.u32 %here, %t, 8, %out; st.global.u{8 * width} [%here+{256 * index}], {kind}; }}"
        )
    cubin = assemble("\n".join(lines), architecture, tmp_path)
    for seed in range(5):
        n, m, w, v = inputs(seed)
        memory = execute(cubin, architecture, n, m, w, v)
        for index, (text, bits, reference) in enumerate(statements):
            for lane in range(32):
                found = read(memory, OUT + 256 * index + 8 * lane, bits // 8)
                expected = reference(lane, n, m, w, v) & ((1 << bits) - 1)
                assert found == expected, f"{text} lane {lane} {n=:#x} {m=:#x} {w=:#x} {v=:#x}"


@pytest.mark.parametrize("architecture", ["90a", "100a", "120a"])
def test_stage_addresses_and_parities_of_a_loop(architecture: str, tmp_path: Path) -> None:
    cubin = assemble(LOOP, architecture, tmp_path)
    memory = execute(cubin, architecture, 11, 0, 0, 0)
    base = (RANK << 24) + 0x400
    for step in range(11):
        for lane in range(32):
            expected = base + 8192 * (step % 4) + 8 * lane ^ (step // 4 & 1)
            assert read(memory, OUT + 128 * step + 4 * lane, 4) == expected
    assert len(memory) == 11 * 128

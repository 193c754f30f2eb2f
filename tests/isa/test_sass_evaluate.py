"""SASS evaluation, instruction by instruction as nvdisasm spells them, against references in Python."""

import math
import operator
import struct
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxaudit.frontends.sass.operands import parse_operands
from ptxaudit.ir.affine import Affine
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory, Register
from ptxaudit.ir.values import LANE_INDEX, LANES, Domain, Truth, Value, is_varying
from ptxaudit.isa.evaluation import LaneState
from ptxaudit.isa.ptx import bitfields
from ptxaudit.isa.sass.evaluate import compile_evaluation
from ptxaudit.isa.sass.evaluate_float import rounded_bits
from ptxaudit.isa.sass.opcodes import DESTINATIONS
from ptxaudit.isa.sass.registers import accesses
from ptxaudit.source import Location, LocationKind

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
ALL = np.ones(LANES, dtype=np.bool_)
EDGES = (0, 1, 2, 31, 32, 33, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, WORD, WORD - 1)
words = st.one_of(st.sampled_from(EDGES), st.integers(0, WORD))
longs = st.builds(lambda low, high: high << 32 | low, words, words)
quickly = settings(max_examples=60, deadline=None)
Registers = Mapping[str, "Value | Truth"]


def instruction(text: str) -> Instruction:
    opcode, _, written = text.partition(" ")
    operands = parse_operands(written)
    writes, reads = accesses(opcode, operands, written)
    known = opcode.split(".")[0] in DESTINATIONS
    place = Location(LocationKind.SASS, "test.cubin", 1, None, 0)
    return Instruction(0, opcode, None, operands, writes, reads, place, text, known)


def run(
    text: str, registers: Registers, domain: Domain | None = None, active: "np.ndarray | None" = None
) -> dict[str, "Value | Truth"]:
    """What the instruction writes, by register name."""
    evaluation = compile_evaluation(instruction(text))
    assert evaluation is not None, text
    state = LaneState(ALL if active is None else active)
    values = [source(operand, registers) for operand in evaluation.sources]
    results = evaluation.compute(domain or Domain(), state, values)
    assert len(results) == len(evaluation.destinations)
    pairs = zip(evaluation.destinations, results, strict=True)
    return {register.name: result for register, result in pairs if register is not None}


def source(operand: object, registers: Registers) -> "Value | Truth":
    if isinstance(operand, Immediate):
        assert isinstance(operand.value, int)
        return operand.value
    assert isinstance(operand, Register | Memory)
    return registers[operand.name if isinstance(operand, Register) else f"c{operand.offset:#x}"]


def everywhere(text: str, rows: list[dict[str, int]], wanted: list[dict[str, int]]) -> None:
    """The results hold for one number in all lanes and for a number per lane."""
    for row, results in zip(rows, wanted, strict=True):
        assert run(text, row) == results
    columns: dict[str, Value | Truth] = {}
    for name in rows[0]:
        kind = np.bool_ if name.lstrip("U").startswith("P") else np.uint64
        columns[name] = np.array([rows[lane % len(rows)][name] for lane in range(LANES)], dtype=kind)
    for name, result in run(text, columns).items():
        found = np.broadcast_to(np.asarray(result), LANES).tolist()
        assert found == [wanted[lane % len(rows)][name] for lane in range(LANES)], text


def s32(number: int) -> int:
    return ((number & WORD) ^ 1 << 31) - (1 << 31)


def s64(number: int) -> int:
    return ((number & LONG) ^ 1 << 63) - (1 << 63)


def halves(prefix: str, first: int, number: int) -> dict[str, int]:
    return {f"{prefix}{first}": number & WORD, f"{prefix}{first + 1}": number >> 32 & WORD}


@quickly
@given(st.lists(st.tuples(longs, longs, longs), min_size=2, max_size=4))
def test_sums_of_pairs_by_carries(rows: list[tuple[int, int, int]]) -> None:
    for a, b, c in rows:
        registers: dict[str, Value | Truth] = {**halves("R", 4, a), **halves("R", 6, b), **halves("UR", 8, c)}
        registers |= run("IADD3 R2,P0,P1,R4,R6,UR8", registers)
        registers |= run("IADD3.X R3,PT,PT,R5,R7,UR9,P1,P0", registers)
        assert registers["R3"] << 32 | registers["R2"] == (a + b + c) & LONG  # type: ignore[operator]
        registers |= run("IADD3 R2,P0,PT,R4,-R6,RZ", registers)
        registers |= run("IMAD.X R3,R5,0x1,~R7,P0", registers)
        assert registers["R3"] << 32 | registers["R2"] == (a - b) & LONG  # type: ignore[operator]
        registers |= run("IADD.64 R2,R4,-R6.reuse", registers)
        assert registers["R3"] << 32 | registers["R2"] == (a - b) & LONG  # type: ignore[operator]
        registers |= run("UIADD3.64 UR2,UPT,UPT,UR8,-0x10,URZ", registers)
        assert registers["UR3"] << 32 | registers["UR2"] == (c - 16) & LONG  # type: ignore[operator]
    everywhere(
        "IADD3 R2,P0,P1,R4,-R6,R5",
        [{"R4": a & WORD, "R6": b & WORD, "R5": c & WORD} for a, b, c in rows],
        [
            {
                "R2": (a - b + c) & WORD,
                "P0": (a & WORD) >= (b & WORD),
                "P1": ((a & WORD) + (1 << 32) - (b & WORD) + (c & WORD) >> 32) > ((a & WORD) >= (b & WORD)),
            }
            for a, b, c in rows
        ],
    )


@quickly
@given(st.lists(st.tuples(words, words, longs), min_size=2, max_size=4), st.sampled_from(["", ".U32"]))
def test_products(rows: list[tuple[int, int, int]], kind: str) -> None:
    number = (lambda word: word) if kind else s32
    registers = [{"R4": a, "R5": b, **halves("R", 6, c)} for a, b, c in rows]
    totals = [number(a) * number(b) + c for a, b, c in rows]
    wide = [halves("R", 2, total & LONG) for total in totals]
    everywhere(f"IMAD.WIDE{kind} R2,R4,R5,R6", registers, wide)
    everywhere(f"IMAD.HI{kind} R3,R4,R5,R6", registers, [{"R3": pair["R3"]} for pair in wide])
    everywhere(f"IMAD{kind} R2,R4,-R5,R6", registers, [{"R2": (c - a * b) & WORD} for a, b, c in rows])
    if kind:
        carried = [{**pair, "P2": total >> 64} for pair, total in zip(wide, totals, strict=True)]
        everywhere("IMAD.WIDE.U32 R2,P2,R4,R5,R6", registers, carried)
    plain = [{"R2": (a * 40 - c) & WORD} for a, _, c in rows]
    everywhere("IMAD R2,R4,0x28,-R6", [{"R4": a, "R6": c & WORD} for a, _, c in rows], plain)


@quickly
@given(st.lists(st.tuples(longs, longs), min_size=2, max_size=4), st.integers(0, 31))
def test_scaled_sums(rows: list[tuple[int, int]], amount: int) -> None:
    for a, b in rows:
        registers: dict[str, Value | Truth] = {**halves("R", 4, a), **halves("R", 6, b)}
        registers |= run(f"LEA R2,P0,R4,R6,{amount:#x}", registers)
        registers |= run(f"LEA.HI.X R3,R4,R7,R5,{amount:#x},P0", registers)
        assert registers["R3"] << 32 | registers["R2"] == ((a << amount) + b) & LONG  # type: ignore[operator]
        registers |= run(f"LEA.HI.X.SX32 R3,R4,R7,{amount:#x},P0", registers)
        total = ((s32(a) << amount) + b) & LONG
        assert registers["R3"] << 32 | registers["R2"] == total  # type: ignore[operator]
    low = [(a & WORD, b & WORD) for a, b in rows]
    everywhere(
        f"ULEA UR2,UR4,-UR6,{amount:#x}",
        [{"UR4": a, "UR6": b} for a, b in low],
        [{"UR2": ((a << amount) - b) & WORD} for a, b in low],
    )
    everywhere(
        f"LEA.HI R2,R4,R6,RZ,{amount:#x}",
        [{"R4": a, "R6": b} for a, b in low],
        [{"R2": (b + (a << amount >> 32)) & WORD} for a, b in low],
    )


@quickly
@given(st.lists(st.tuples(longs, st.integers(0, 80)), min_size=2, max_size=4), st.data())
def test_funnel_shifts(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    direction = data.draw(st.sampled_from("LR"))
    kind = data.draw(st.sampled_from(["U32", "S32", "U64", "S64"]))
    wrap, upper = data.draw(st.booleans()), data.draw(st.booleans())
    bits = int(kind[1:])
    wanted = []
    for pair, amount in rows:
        count = amount % bits if wrap else min(amount, bits)
        number = s64(pair) if kind[0] == "S" else pair
        moved = number << count if direction == "L" else number >> count
        wanted.append({"R2": moved >> (32 if upper else 0) & WORD})
    text = f"SHF.{direction}{'.W' if wrap else ''}.{kind}{'.HI' if upper else ''} R2,R4,R6,R5"
    everywhere(text, [{**halves("R", 4, pair), "R6": amount} for pair, amount in rows], wanted)


@quickly
@given(st.lists(st.tuples(words, words, words), min_size=2, max_size=4), st.integers(0, 255), words)
def test_logic(rows: list[tuple[int, int, int]], table: int, mask: int) -> None:
    def expected(a: int, b: int, c: int) -> int:
        bits = ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1 for i in range(32))
        return sum((table >> index & 1) << i for i, index in enumerate(bits))

    registers = [dict(zip(("R4", "R5", "R6"), row, strict=True)) for row in rows]
    results = [expected(*row) for row in rows]
    wanted = [{"R2": result, "P1": result != 0} for result in results]
    everywhere(f"LOP3.LUT P1,R2,R4,R5,R6,{table:#x},!PT", registers, wanted)
    always = [{**row, "P1": True} for row in wanted]
    everywhere(f"LOP3.LUT P1,R2,R4,R5,R6,{table:#x},PT", registers, always)
    masked = [{"R2": expected(a, mask, b)} for a, b, _ in rows]
    two = [{"R4": a, "R5": b} for a, b, _ in rows]
    everywhere(f"LOP3.LUT R2,R4,{mask:#x},R5,{table:#x},!PT", two, masked)


RELATIONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
LOGIC = {"AND": operator.and_, "OR": operator.or_, "XOR": operator.xor}


@quickly
@given(
    st.lists(st.tuples(longs, longs, st.booleans()), min_size=2, max_size=4),
    st.sampled_from(sorted(RELATIONS)),
    st.sampled_from(sorted(LOGIC)),
    st.booleans(),
)
def test_comparisons(rows: list[tuple[int, int, bool]], relation: str, logic: str, is_signed: bool) -> None:
    compare = getattr(operator, RELATIONS[relation])
    number, sign = (s64, "") if is_signed else (lambda n: n, ".U32")
    rows += [(a, a ^ 1, flag) for a, _, flag in rows] + [(a, a, flag) for a, _, flag in rows]
    for a, b, flag in rows:
        registers: dict[str, Value | Truth] = {**halves("R", 4, a), **halves("R", 6, b), "P3": flag}
        registers |= run(f"ISETP.{relation}.U32.AND P0,PT,R4,R6,PT", registers)
        truth = compare(number(a), number(b))
        both = {"P1": LOGIC[logic](truth, flag), "P2": LOGIC[logic](not truth, flag)}
        assert run(f"ISETP.{relation}{sign}.{logic}.EX P1,P2,R5,R7,P3,P0", registers) == both
        kind = "S64" if is_signed else "U64"
        assert run(f"ISETP.{relation}.{kind}.{logic} P1,P2,R4,R6,P3", registers) == both
    narrow = s32 if is_signed else (lambda n: n & WORD)
    everywhere(
        f"ISETP.{relation}{sign}.{logic} P0,PT,R4,R6,!P3",
        [{"R4": a & WORD, "R6": b & WORD, "P3": flag} for a, b, flag in rows],
        [{"P0": LOGIC[logic](compare(narrow(a), narrow(b)), not flag)} for a, b, flag in rows],
    )


@quickly
@given(st.tuples(st.booleans(), st.booleans(), st.booleans()), st.integers(0, 255), st.integers(0, 255))
def test_predicate_tables(inputs: tuple[bool, bool, bool], first: int, second: int) -> None:
    a, b, c = inputs
    registers = {"P0": a, "P1": b, "UP2": c}
    index = a << 2 | (not b) << 1 | c
    expected = {"P3": bool(first >> index & 1), "P4": bool(second >> index & 1)}
    assert run(f"PLOP3.LUT P3,P4,P0,!P1,UP2,{first:#x},{second:#x}", registers) == expected


@quickly
@given(words, st.integers(0, 127), words)
def test_predicates_as_bits(word: int, mask: int, base: int) -> None:
    flags = run(f"R2P PR,R4.B1,{mask:#x}", {"R4": word})
    assert flags == {f"P{bit}": bool(word >> (8 + bit) & 1) for bit in range(7) if mask >> bit & 1}
    packed = run(f"P2R R5,R6,{mask:#x}", {**flags, "R6": base})
    assert packed == {"R5": (base & ~mask) | (word >> 8 & mask)}


@quickly
@given(st.lists(st.tuples(words, words, words, st.booleans()), min_size=2, max_size=4))
def test_choices_and_fields(rows: list[tuple[int, int, int, bool]]) -> None:
    registers = [{"R4": a, "R5": b, "R6": c, "P0": flag} for a, b, c, flag in rows]

    def check(text: str, results: list[int]) -> None:
        everywhere(text, registers, [{"R2": result & WORD} for result in results])

    check("SEL R2,R4,R5,P0", [a if flag else b for a, b, _, flag in rows])
    check("SEL R2,R4,0x7,!P0", [7 if flag else a for a, _, _, flag in rows])
    check("VIMNMX R2,R4,R5,P0", [(min if flag else max)(s32(a), s32(b)) for a, b, _, flag in rows])
    check("VIMNMX.U32 R2,PT,PT,R4,R5,PT", [min(a, b) for a, b, _, _ in rows])
    check("VIMNMX3 R2,R4,R5,R6,!PT", [max(s32(a), s32(b), s32(c)) for a, b, c, _ in rows])
    check("VIADDMNMX R2,R4,-R5,R6,PT", [min(s32(a - b), s32(c)) for a, b, c, _ in rows])
    check("VIADDMNMX.U32 R2,R4,R5,0x2,PT", [min(a + b & WORD, 2) for a, b, _, _ in rows])
    check("IABS R2,R4", [abs(s32(a)) for a, *_ in rows])
    check("PRMT R2,R4,R5,R6", [bitfields.permute(a, c, b, "") for a, b, c, _ in rows])
    check("PRMT R2,R4,0x9910,RZ", [s32(a << 16) >> 16 for a, *_ in rows])
    check("SGXT R2,R4,0x9", [s32(a << 23) >> 23 for a, *_ in rows])
    check("SGXT.U32 R2,R4,0x9", [a & 0x1FF for a, *_ in rows])
    check("BMSK R2,R4,R5", [bitfields.bit_mask(a, b, False) for a, b, _, _ in rows])
    check("POPC R2,~R4", [(~a & WORD).bit_count() for a, *_ in rows])
    check("FLO.U32 R2,R4", [a.bit_length() - 1 for a, *_ in rows])
    check("FLO.U32.SH R2,R4", [32 - a.bit_length() if a else -1 for a, *_ in rows])
    check("BREV R2,R4", [int(f"{a:032b}"[::-1], 2) for a, *_ in rows])
    check("MOV R2,-R4", [-a for a, *_ in rows])


@given(words)
def test_half_precision_constants(word: int) -> None:
    halves_ = [struct.unpack("<e", struct.pack("<H", part))[0] for part in (word >> 16, word & 0xFFFF)]
    if not all(math.isfinite(number) for number in halves_):
        return
    spelled = ",".join(f"{number:.30f}" for number in halves_)
    assert run(f"HFMA2 R2,-RZ,RZ,{spelled}", {}) == {"R2": word}
    assert run(f"HFMA2.MMA R2,-RZ,RZ,{spelled}", {}) == {"R2": word}


def test_moves_of_pairs_and_special_registers() -> None:
    assert run("CS2R R4,SRZ", {}) == {"R4": 0, "R5": 0}
    assert run("MOV.64 R4,0xff800000ff800001", {}) == {"R4": 0xFF800001, "R5": 0xFF800000}
    assert run("MOV.64 R4,UR6", {"UR6": 1, "UR7": 2}) == {"R4": 1, "R5": 2}
    assert run("S2UR UR4,SR_CTAID.X", {"SR_CTAID.X": 7}) == {"UR4": 7}
    assert run("IMAD.MOV.U32 R1,RZ,RZ,c[0x0][0x28]", {"c0x28": 12}) == {"R1": 12}
    pair = {"R4": 3, "R5": 5, "c0x168": 1, "c0x16c": 9}
    assert run("IMAD.WIDE.U32 R2,R4,R5,c[0x0][0x168]", pair) == {"R2": 16, "R3": 9}


def test_lanes_that_execute() -> None:
    active = (LANE_INDEX >= 5) & (LANE_INDEX < 20)
    lanes = LANE_INDEX * np.uint64(3)
    assert run("R2UR UR4,R4", {"R4": lanes}, active=active) == {"UR4": 15}
    assert run("S2UR UR4,SR_TID.X", {"SR_TID.X": lanes}, active=active) == {"UR4": 15}
    elected = run("ELECT P0,UR4,PT", {}, active=active)
    assert elected["UR4"] == 5
    assert np.flatnonzero(elected["P0"]).tolist() == [5]  # type: ignore[arg-type]
    flags = LANE_INDEX >= 8
    assert run("VOTE.ANY R4,P1,P0", {"P0": flags}, active=active) == {"R4": 0xFFF00, "P1": True}
    assert run("VOTEU.ALL UP1,P0", {"P0": flags}, active=active) == {"UP1": False}
    assert run("VOTEU.ANY UR4,UPT,PT", {}, active=active) == {"UR4": 0xFFFE0}
    assert run("REDUX.SUM UR4,R4", {"R4": lanes}, active=active) == {"UR4": 3 * sum(range(5, 20))}
    assert run("REDUX UR4,R4", {"R4": LANE_INDEX | np.uint64(64)}, active=active) == {"UR4": 64}
    assert run("CREDUX.MIN.S32 UR4,R4", {"R4": lanes}, active=active) == {"UR4": 15}
    assert run("SHFL.IDX PT,R2,R4,RZ,0x1f", {"R4": lanes}) == {"R2": 0}
    moved = run("SHFL.UP P1,R2,R4,0x2,RZ", {"R4": lanes})
    assert moved["R2"].tolist() == [0, 3, *(3 * lane for lane in range(30))]  # type: ignore[union-attr]
    assert np.flatnonzero(moved["P1"]).tolist() == list(range(2, 32))  # type: ignore[arg-type]


def affine(result: "Value | Truth") -> Affine:
    assert isinstance(result, Affine)
    return result


def test_low_words_of_addresses_stay_affine() -> None:
    domain = Domain()
    base, above = domain.atom("base", "base"), domain.atom("above", "above")
    registers: dict[str, Value | Truth] = {"R4": base, "R5": above, "R6": LANE_INDEX, "R7": 0}
    registers |= run("IADD3 R2,P0,PT,R4,0x100,RZ", registers, domain)
    registers |= run("IADD3.X R3,PT,PT,RZ,R5,RZ,P0,!PT", registers, domain)
    assert affine(registers["R2"]).terms == base.terms and affine(registers["R2"]).offset == 0x100
    again = run("IADD3.X R3,PT,PT,RZ,R5,RZ,P0,!PT", registers, domain)["R3"]
    assert domain.key(again) == domain.key(registers["R3"])
    wide = run("IMAD.WIDE.U32 R2,R6,0x10,R4", registers, domain)
    assert affine(wide["R2"]).terms == base.terms
    assert affine(wide["R2"]).offset.tolist() == [16 * lane for lane in range(32)]  # type: ignore[union-attr]


def test_carries_that_bounds_exclude() -> None:
    domain = Domain()
    index = domain.atom("index", "index", low=0, high=1000)
    registers: dict[str, Value | Truth] = {"R4": index, "R5": 0, "R6": 0x400}
    assert run("IADD3 R2,P0,PT,R4,R6,RZ", registers, domain)["P0"] is False
    assert run("IADD3 R2,P0,P1,R4,R6,R4", registers, domain)["P1"] is False
    assert run("IMAD.WIDE.U32 R2,R4,0x80,RZ", registers, domain)["R3"] == 0
    assert run("IMAD.WIDE R2,R4,0x80,RZ", registers, domain)["R3"] == 0
    assert run("SHF.L.U64.HI R2,R4,0x7,RZ", registers, domain)["R2"] == 0
    assert run("LEA.HI R2,R4,0x7,RZ,0x4", registers, domain)["R2"] == 7
    assert run("IADD3 R2,P0,PT,R4,-0x1,RZ", {"R4": 0}, domain) == {"R2": WORD, "P0": False}
    assert run("IADD3 R2,P0,PT,R4,-R6,RZ", registers, domain)["P0"] is False
    borrow = run("IADD3 R2,P0,PT,R4,-0x64,RZ", registers, domain)["P0"]
    assert not isinstance(borrow, bool | np.ndarray) and not is_varying(borrow)


def test_aligned_unknown_addresses() -> None:
    domain = Domain()
    stage = domain.multiply(domain.atom("stage", "stage", low=0, high=3), 0x2000, 32)
    registers: dict[str, Value | Truth] = {"R4": domain.add(stage, 0x400, 32), "UR5": 3, "UR4": 0x400}
    assert run("ULEA UR6,UR5,UR4,0x18", registers, domain) == {"UR6": 0x3000400}
    masked = run("LOP3.LUT R2,R4,0x3fff0,RZ,0xc0,!PT", registers, domain)["R2"]
    assert affine(masked).offset == 0x400
    assert run("LOP3.LUT R2,R4,0x3ff,RZ,0xc0,!PT", registers, domain) == {"R2": 0}
    shifted = affine(run("SHF.R.U32.HI R2,RZ,0x4,R4", registers, domain)["R2"])
    assert shifted.offset == 0x40 and shifted.terms[0][1] == 0x200
    set_low = affine(run("LOP3.LUT R2,R4,0x8,RZ,0xfc,!PT", registers, domain)["R2"])
    assert set_low.offset == 0x408
    flipped = affine(run("LOP3.LUT R2,RZ,R4,RZ,0x33,!PT", registers, domain)["R2"])
    assert flipped.terms[0][1] == -0x2000
    assert run("ISETP.GE.AND P0,PT,R4,0x0,PT", registers, domain) == {"P0": True}
    assert run("PRMT R2,R4,0x7770,RZ", registers, domain) == {"R2": 0}


def test_lowest_lane_of_an_unknown() -> None:
    domain = Domain()
    value = domain.add(domain.atom("lanes", "lanes", varying=True), LANE_INDEX, 32)
    active = LANE_INDEX >= 3
    first = affine(run("R2UR UR4,R4", {"R4": value}, domain, active)["UR4"])
    assert not first.varying and first.offset == 3
    assert domain.key(first) == domain.key(run("R2UR UR5,R4", {"R4": value}, domain, active)["UR5"])  # type: ignore[arg-type]


def test_quotients_by_reciprocals() -> None:
    domain = Domain()
    cluster = domain.atom("clusterid", "clusterid", low=0)
    block = domain.add(domain.multiply(cluster, 3, 32), 2, 32)
    registers: dict[str, Value | Truth] = {"UR4": block, "R4": 3}
    for text in (
        "I2FP.F32.U32 R5,R4",
        "MUFU.RCP R6,R5",
        "VIADD R7,R6,0xfffffffe",
        "I2FP.F32.U32.RZ R8,UR4",
        "FMUL.RZ R9,R7,R8",
        "F2I.U32.TRUNC.NTZ R10,R9",
        "IMAD R11,R4,-R10,UR4",
    ):
        registers |= run(text, registers, domain)
    assert domain.key(registers["R10"]) == domain.key(cluster)
    assert registers["R11"] == 2
    unknown = run("FMUL R9,R8,R12", {**registers, "R12": block}, domain)["R9"]
    assert isinstance(run("F2I.U32.TRUNC.NTZ R10,R9", {"R9": unknown}, domain)["R10"], Affine)


@given(st.floats(min_value=-1e30, max_value=1e30), st.sampled_from(["RZ", "RP", "RM"]))
def test_directed_rounding(value: float, mode: str) -> None:
    bits = rounded_bits(value, mode)
    found = struct.unpack("<f", struct.pack("<I", bits))[0]
    aim = {"RZ": value, "RP": -math.inf, "RM": math.inf}[mode]
    other = float(np.nextafter(np.float32(found), np.float32(aim)))
    if mode == "RZ":
        assert abs(found) <= abs(value)
    else:
        assert found >= value > other if mode == "RP" else found <= value < other


def test_what_is_not_modelled_is_an_atom_per_register() -> None:
    domain = Domain()
    registers = {f"R{number}": domain.atom(number, f"R{number}") for number in range(16)}
    first = run("FFMA R2,R4,R5,R6", registers, domain)
    assert domain.key(first["R2"]) == domain.key(run("FFMA R2,R4,R5,R6", registers, domain)["R2"])
    assert domain.key(first["R2"]) != domain.key(run("FFMA R2,R4,R5,R7", registers, domain)["R2"])
    assert domain.key(first["R2"]) != domain.key(run("FFMA R2,R4,-R5,R6", registers, domain)["R2"])
    assert len(run("HMMA.16816.F32 R8,R4,R6,R8", registers, domain)) == 4
    compared = run("FSETP.GT.AND P0,PT,R4,R5,PT", registers, domain)["P0"]
    assert not isinstance(compared, Affine | bool)
    one = run("MATCH.ANY R2,R4", registers, domain)["R2"]
    assert domain.key(one) != domain.key(run("MATCH.ANY R2,R4", registers, domain)["R2"])


@pytest.mark.parametrize(
    "text",
    [
        "LDS R2,[R4]",
        "LDC R2,c[0x0][0x28]",
        "ATOMS.ADD R2,[R4],R5",
        "SYNCS.ARRIVE.TRANS64.A1T0 RZ,[R4],RZ",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0,[R4],R5",
        "BAR.SYNC.DEFER_BLOCKING 0x1,0x80",
        "CCTL.IVALL",
        "STS [R4],R5",
    ],
)
def test_what_is_not_evaluated_here(text: str) -> None:
    assert compile_evaluation(instruction(text)) is None


ROOTS = """
    IADD3 IADD3.X IADD.64 UIADD3 IMAD IMAD.WIDE IMAD.HI.U32 LEA LEA.HI.X SHF.L.U32 SHF.R.S64.HI LOP3.LUT
    PLOP3.LUT ISETP.LT.AND ISETP.GE.AND.EX SEL PRMT R2P P2R VOTE.ANY ELECT SHFL.BFLY REDUX MOV MOV.64 CS2R S2R
    R2UR HFMA2 VIADD.16X2 VIMNMX.S16X2 SGXT BMSK FLO IABS IMNMX.S64 VIADDMNMX NEWOP F2I.U32.TRUNC I2F.RP
    MUFU.RCP FMUL.RZ USHF UP2UR
"""
OPERANDS = """
    R4 -R5 ~R6 |R7| -|R8| R9.H1 R9.B2 RZ URZ UR4 -UR5 0x10 -0x4 P0 !P1 PT !PT UP3 PR c[0x0][0x160]
    -c[0x0][0x164] c[0x0][R3+0x10] cx[UR4][0x8] 1.5 +INF QNAN `(.L_x) SR_TID.X SRZ [R4] desc[UR4][R2.64] R255
    R4.U16 Rpc.LO
"""


@settings(max_examples=800, deadline=None)
@given(st.sampled_from(ROOTS.split()), st.lists(st.sampled_from(OPERANDS.split()), max_size=8), st.booleans())
def test_odd_shapes_never_raise(opcode: str, operands: list[str], is_known: bool) -> None:
    evaluation = compile_evaluation(instruction(f"{opcode} {','.join(operands)}"))
    if evaluation is None:
        return
    domain = Domain()
    values: list[Value | Truth] = []
    for index, operand in enumerate(evaluation.sources):
        name = operand.name if isinstance(operand, Register) else ""
        if name.lstrip("U").startswith("P"):
            values.append(index % 2 == 0 if is_known else domain.truth_of(domain.atom(name, name)))
        else:
            values.append(index * 77 if is_known else domain.atom((name, index), name))
    results = evaluation.compute(domain, LaneState(ALL), values)
    assert len(results) == len(evaluation.destinations)


def test_rounding_down_is_one_number_however_it_is_written() -> None:
    """Two roles that compute one trip count by a mask and by shifts agree on it."""
    domain = Domain()
    count = domain.atom("count", "count")
    by_mask = run("LOP3.LUT R2,R4,0xfffffe00,RZ,0xc0,!PT", {"R4": count}, domain)["R2"]
    shifted = run("SHF.R.S32.HI R2,RZ,0x9,R4", {"R4": count}, domain)["R2"]
    by_shifts = run("SHF.L.U32 R2,R4,0x9,RZ", {"R4": shifted}, domain)["R2"]
    assert domain.key(by_mask) == domain.key(by_shifts)

"""Lowering: the syntax tree of a PTX module as functions of instructions and blocks.

Reads and writes come from the instruction table: a written operand's registers are written, all other
registers are read, those of an address always; the sink ``_`` is neither. An opcode or modifier that the
table does not know is kept with ``known`` false and noted once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxaudit.arch import Architecture, parse_architecture
from ptxaudit.errors import SyntaxFault, UnsupportedArchitecture
from ptxaudit.frontends.demangle import demangle
from ptxaudit.frontends.ptx import syntax
from ptxaudit.frontends.ptx.construct import make_instruction, make_location
from ptxaudit.frontends.ptx.flow import Flow, Transfer
from ptxaudit.frontends.ptx.launch import launch_facts, variables_of
from ptxaudit.frontends.ptx.printer import print_instruction
from ptxaudit.frontends.ptx.scopes import NameScope, Resolved
from ptxaudit.ir.function import Function, Language, Module, Note, Variable
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import LabelReference, Operand, Register, Symbol
from ptxaudit.isa.ptx.forms import InstructionForm, instruction_form
from ptxaudit.isa.ptx.targets import Requirement, missing_requirement
from ptxaudit.source import SourceLine, SourceText

_TRANSFERS = {
    "bra": Transfer.BRANCH,
    "brx": Transfer.INDEXED_BRANCH,
    "ret": Transfer.LEAVE,
    "exit": Transfer.LEAVE,
    "trap": Transfer.LEAVE,
    "call": Transfer.CALL,
}


def lower_module(tree: syntax.Module, source: SourceText) -> Module:
    """All functions with a body. ``tree`` must have been parsed from ``source``.

    Raises :class:`SyntaxFault` for a label declared twice, or branched to but not declared, and
    :class:`UnsupportedArchitecture` if ``.target`` names none that is known.
    """
    architecture = _architecture(tree, source)
    context = _Context.of(tree, source, architecture)
    functions = tuple(
        _FunctionLowering(context, architecture, item, item.body).lower()
        for item in tree.items
        if isinstance(item, syntax.Function) and item.body is not None
    )
    notes = tuple(context.notes.values())
    return Module(source.name, Language.PTX, architecture, functions, source.text, notes)


def _architecture(tree: syntax.Module, source: SourceText) -> Architecture:
    target = tree.target
    try:
        return parse_architecture(target.options[0])
    except UnsupportedArchitecture as error:
        line, column = source.line_column(target.offset)
        raise UnsupportedArchitecture(f"{source.name}:{line}:{column}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an opcode with a number of operands means for the lowering.

    ``simple``: operand 0 alone is written, and not read. ``pure``: no operand is written.
    """

    written: tuple[int, ...]
    read_written: tuple[int, ...]
    transfer: Transfer | None
    known: bool
    simple: bool
    pure: bool


@dataclass(slots=True)
class _Context:
    """What the functions of a module share."""

    source: SourceText
    architecture: Architecture
    version: tuple[int, int]
    files: dict[int, str]
    variables: tuple[Variable, ...]
    no_return: frozenset[str]
    notes: dict[str, Note] = field(default_factory=dict)
    plans: dict[tuple[str, int], _Plan] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: syntax.Module, source: SourceText, architecture: Architecture) -> "_Context":
        files = {item.index: item.name for item in tree.items if isinstance(item, syntax.File)}
        declarations = (item for item in tree.items if isinstance(item, syntax.VariableDeclaration))
        variables = tuple(variable for one in declarations for variable in variables_of(one))
        functions = (item for item in tree.items if isinstance(item, syntax.Function))
        no_return = frozenset(one.name for one in functions if _never_returns(one.directives))
        return cls(source, architecture, tree.version, files, variables, no_return)

    def plan(self, statement: syntax.Instruction) -> _Plan:
        """The plan of a statement's opcode; notes one that is unknown or that the target has not."""
        key = (statement.opcode, len(statement.operands))
        found = self.plans.get(key)
        if found is None:
            form = instruction_form(*key)
            if not form.known:
                self._note_unknown(statement, form)
            missing = missing_requirement(form.name, self.architecture)
            if missing is not None:
                self._note_missing(statement, missing)
            transfer = _TRANSFERS.get(statement.opcode.partition(".")[0])
            simple = form.written == (0,) and not form.read_written
            pure = not form.written and not form.read_written
            found = _Plan(form.written, form.read_written, transfer, form.known, simple, pure)
            self.plans[key] = found
        return found

    def _place(self, statement: syntax.Instruction) -> str:
        line, column = self.source.line_column(statement.offset)
        return f"{self.source.name}:{line}:{column}"

    def _note_missing(self, statement: syntax.Instruction, missing: Requirement) -> None:
        message = (
            f"{self.architecture.name} has no {missing.family} instructions, which need {missing.targets}: "
            "no assembler takes this, the verdicts are of what the text says"
        )
        self.notes.setdefault(message, Note(message, self._place(statement)))

    def _note_unknown(self, statement: syntax.Instruction, form: InstructionForm) -> None:
        place = self._place(statement)
        unknown = [f"modifier '.{one}' of '{form.name}'" for one in form.unknown_modifiers]
        for what in unknown or [f"instruction '{form.name}'"]:
            message = f"unknown {what}: assumed to touch any memory"
            self.notes.setdefault(message, Note(message, place))


def _never_returns(directives: tuple[syntax.FunctionDirective | syntax.Pragma, ...]) -> bool:
    return any(isinstance(one, syntax.FunctionDirective) and one.name == "noreturn" for one in directives)


class _FunctionLowering:
    """Builds one function; lives no longer than :meth:`lower`."""

    def __init__(
        self, context: _Context, architecture: Architecture, tree: syntax.Function, body: syntax.Scope
    ) -> None:
        self.context = context
        self.architecture = architecture
        self.tree = tree
        self.body = body
        self.instructions: list[Instruction] = []
        self.flow = Flow()
        self.register_types: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.source_lines: dict[int, SourceLine] = {}
        self.source_line: SourceLine | None = None
        self.source_places: dict[tuple[int, int, int], SourceLine] = {}
        self.scope_count = 0
        self.no_return_prototypes: set[str] = set()

    def lower(self) -> Function:
        names = self._open_scope(None, self.body)
        for parameter in (*(self.tree.returns or ()), *(self.tree.parameters or ())):
            names.declare(parameter)
        for returned in self.tree.returns or ():
            self.variables.extend(variables_of(returned))
        self._statements(self.body, names)
        end_line, _ = self.context.source.line_column(self.body.end)
        blocks = self.flow.blocks(self.instructions, end_line)
        return Function(
            name=self.tree.name,
            demangled=demangle(self.tree.name),
            language=Language.PTX,
            architecture=self.architecture,
            is_entry=self.tree.kind == "entry",
            instructions=tuple(self.instructions),
            blocks=blocks,
            facts=launch_facts(self.tree),
            parameters=tuple(v for one in self.tree.parameters or () for v in variables_of(one)),
            variables=self.context.variables + tuple(self.variables),
            register_types=self.register_types,
            isa_version=self.context.version,
            jump_tables=self.flow.jump_tables(blocks),
            source_lines=self.source_lines,
        )

    def _open_scope(self, parent: NameScope | None, scope: syntax.Scope) -> NameScope:
        self.scope_count += 1
        names = NameScope(self.scope_count, parent, self.register_types)
        names.declare_labels(self._labels_of(scope))
        for statement in scope.statements:
            if isinstance(statement, syntax.BranchTargets):
                targets = tuple(self._label(names, name, statement.offset) for name in statement.targets)
                self.flow.tables[names.unique(statement.label)] = targets
            elif isinstance(statement, syntax.CallPrototype) and _never_returns(statement.directives):
                self.no_return_prototypes.add(names.unique(statement.label))
        return names

    def _statements(self, scope: syntax.Scope, names: NameScope) -> None:
        for statement in scope.statements:
            kind = type(statement)
            if kind is syntax.Instruction:
                self._instruction(statement, names)  # type: ignore[arg-type]
            elif isinstance(statement, syntax.SourceLocation):
                self.source_line = self._source_line(statement)
            elif isinstance(statement, syntax.Label):
                self.flow.labels[names.unique(statement.name)] = len(self.instructions)
            elif isinstance(statement, syntax.VariableDeclaration):
                self._declare(statement, names)
            elif isinstance(statement, syntax.Scope):
                self._statements(statement, self._open_scope(names, statement))

    def _source_line(self, place: syntax.SourceLocation) -> SourceLine:
        # ``inlined_at`` names a line that an earlier .loc gave, with what that was inlined at.
        outer = None if place.inlined_at is None else self._place(*place.inlined_at)
        file = self.context.files.get(place.file, f"file {place.file}")
        line = SourceLine(file, place.line, place.column, outer)
        self.source_places[place.file, place.line, place.column] = line
        return line

    def _place(self, file: int, line: int, column: int) -> SourceLine:
        known = self.source_places.get((file, line, column))
        return known or SourceLine(self.context.files.get(file, f"file {file}"), line, column)

    def _declare(self, declaration: syntax.VariableDeclaration, names: NameScope) -> None:
        names.declare(declaration)
        if declaration.space != "reg":
            for variable in variables_of(declaration):
                self.variables.append(
                    Variable(
                        names.unique(variable.name),
                        variable.space,
                        variable.size,
                        variable.alignment,
                        variable.external,
                    )
                )

    def _instruction(self, statement: syntax.Instruction, names: NameScope) -> None:
        context = self.context
        plan = context.plans.get((statement.opcode, len(statement.operands))) or context.plan(statement)
        index = len(self.instructions)
        guard = None
        reads: tuple[Register, ...] = ()
        if statement.guard is not None:
            guard = names.guard(statement.guard)
            reads = (guard.register,)
        if plan.transfer is None:
            cache = names.cache
            resolved = [cache.get(id(one)) or names.resolve(one) for one in statement.operands]
            operands = tuple([one.operand for one in resolved])
            if plan.simple:
                first = resolved.pop(0)
                writes = first.writes
                reads += first.address_reads
                for one in resolved:
                    reads += one.reads
            elif plan.pure:
                writes = ()
                for one in resolved:
                    reads += one.reads
            else:
                writes, more = _effects(plan, resolved)
                reads += more
        else:
            operands, writes, more = self._transfer(statement, names, plan.transfer, index)
            reads += more
        source = context.source
        line, column = source.line_column(statement.offset)
        text = source.text[statement.offset : statement.end]
        # A slash may begin a comment, which is no part of the statement.
        text = print_instruction(statement) if "/" in text else " ".join(text.split())
        location = make_location(source.name, line, column)
        self.instructions.append(
            make_instruction(
                index, statement.opcode, guard, operands, writes, reads, location, text, plan.known
            )
        )
        if self.source_line is not None:
            self.source_lines[index] = self.source_line

    def _transfer(
        self, statement: syntax.Instruction, names: NameScope, transfer: Transfer, index: int
    ) -> tuple[tuple[Operand, ...], tuple[Register, ...], tuple[Register, ...]]:
        """Operands, writes and reads of a control transfer, whose flow is noted."""
        guarded = statement.guard is not None
        if transfer is Transfer.LEAVE:
            self.flow.leave(index, guarded)
            return (), (), ()
        if transfer is Transfer.CALL:
            return self._call(statement, names, index)
        *others, target = statement.operands or (syntax.Name("?"),)
        if not isinstance(target, syntax.Name) or len(others) != (transfer is Transfer.INDEXED_BRANCH):
            found = f"'{statement.opcode}'"
            raise SyntaxFault(self.context.source, statement.offset, found, "one target label")
        label = self._label(names, target.text, statement.offset)
        if transfer is Transfer.BRANCH:
            self.flow.branch(index, (label,), guarded)
            return (LabelReference(label),), (), ()
        table = self.flow.tables.get(label)
        if table is None:
            raise SyntaxFault(
                self.context.source, statement.offset, f"'{target.text}'", "a label of .branchtargets"
            )
        self.flow.branch(index, table, guarded)
        self.flow.indexed.add(index)
        selector = names.resolve(others[0])
        return (selector.operand, LabelReference(label)), (), selector.reads

    def _call(
        self, statement: syntax.Instruction, names: NameScope, index: int
    ) -> tuple[tuple[Operand, ...], tuple[Register, ...], tuple[Register, ...]]:
        """``call (returns), target, (arguments), prototype``: all but the target are optional."""
        resolved = [names.resolve(operand) for operand in statement.operands]
        returns = 1 if statement.operands and isinstance(statement.operands[0], syntax.ArgumentList) else 0
        writes = resolved[0].writes if returns else ()
        reads = tuple(register for one in resolved[returns:] for register in one.reads)
        named = {one.operand.name for one in resolved if isinstance(one.operand, (Symbol, LabelReference))}
        if named & (self.context.no_return | self.no_return_prototypes):
            self.flow.leave(index, statement.guard is not None)
        return tuple(one.operand for one in resolved), writes, reads

    def _labels_of(self, scope: syntax.Scope) -> Iterator[str]:
        seen: set[str] = set()
        for statement in scope.statements:
            match statement:
                case syntax.Label(name, offset):
                    pass
                case syntax.BranchTargets(name, _, offset) | syntax.CallTargets(name, _, offset):
                    pass
                case syntax.CallPrototype(name, offset=offset):
                    pass
                case _:
                    continue
            if name in seen:
                raise SyntaxFault(self.context.source, offset, f"a second label '{name}'", "a new name")
            seen.add(name)
            yield name

    def _label(self, names: NameScope, name: str, offset: int) -> str:
        found = names.label(name)
        if found is None:
            raise SyntaxFault(self.context.source, offset, f"undeclared label '{name}'", "a label in scope")
        return found


def _effects(plan: _Plan, resolved: list[Resolved]) -> tuple[tuple[Register, ...], tuple[Register, ...]]:
    writes: tuple[Register, ...] = ()
    reads: tuple[Register, ...] = ()
    for position, one in enumerate(resolved):
        if position in plan.written:
            writes += one.writes
            reads += one.address_reads
        elif position in plan.read_written:
            writes += one.writes
            reads += one.reads
        else:
            reads += one.reads
    return writes, reads

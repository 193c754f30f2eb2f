"""Text of a syntax tree. The layout is canonical; reading it back gives an equal tree, and ptxas the same
SASS as from the original text."""

from collections.abc import Iterable, Iterator

from ptxaudit.frontends.ptx.expressions import PRECEDENCE
from ptxaudit.frontends.ptx.syntax import (
    Address,
    AddressSize,
    Alias,
    Applied,
    ArgumentList,
    Assignment,
    Attribute,
    Binary,
    BranchTargets,
    CallPrototype,
    CallTargets,
    Cast,
    Conditional,
    DebugData,
    Declarator,
    DwarfLine,
    File,
    Function,
    FunctionDirective,
    Instruction,
    Item,
    Label,
    Literal,
    Module,
    Name,
    Operand,
    Pair,
    Pragma,
    Scope,
    Section,
    SourceLocation,
    Statement,
    Target,
    Unary,
    VariableDeclaration,
    VectorList,
    Version,
)

_TIGHTEST = 100


def print_ptx(module: Module) -> str:
    """The module as PTX text, ending in a newline."""
    return "\n".join(line for item in module.items for line in _item(item)) + "\n"


def print_operand(operand: Operand) -> str:
    """One operand or expression."""
    return _expression(operand, 0)


def print_instruction(instruction: Instruction) -> str:
    """An instruction on one line, without its ``;``."""
    guard = ""
    if instruction.guard is not None:
        guard = f"@{'!' if instruction.guard.negated else ''}{instruction.guard.name} "
    if not instruction.operands:
        return guard + instruction.opcode
    return f"{guard}{instruction.opcode} {_join(instruction.operands)}"


def _join(operands: Iterable[Operand]) -> str:
    return ", ".join(_expression(operand, 0) for operand in operands)


def _expression(operand: Operand, minimum: int) -> str:
    """The text of an expression, in parentheses if it binds more loosely than ``minimum``."""
    match operand:
        case Name(text) | Literal(text):
            return text
        case Address(parts, suffix):
            return f"[{_join(parts)}]{suffix}"
        case VectorList(elements):
            return f"{{{_join(elements)}}}"
        case ArgumentList(elements):
            return f"({_join(elements)})"
        case Pair(first, second):
            return f"{_expression(first, 0)}|{_expression(second, 0)}"
        case Unary(operator, inner):
            return operator + _expression(inner, _TIGHTEST)
        case Applied(function, argument):
            return f"{_expression(function, 0)}({_expression(argument, 0)})"
        case Assignment(name, value):
            return f"{name} = {_expression(value, 0)}"
        case Cast(kind, inner):
            return f"(.{kind}) {_expression(inner, _TIGHTEST)}"
        case Binary(operator, left, right):
            level = PRECEDENCE[operator]
            # A single name before '|' would read as the pair p|q.
            text = f"{_expression(left, level)} {operator} {_expression(right, level + 1)}"
            if operator == "|" and isinstance(left, Name):
                text = f"({_expression(left, level)}) | {_expression(right, level + 1)}"
            return f"({text})" if level < minimum else text
        case Conditional(condition, first, second):
            text = f"{_expression(condition, 1)} ? {_expression(first, 0)} : {_expression(second, 0)}"
            return f"({text})" if minimum else text


def _item(item: Item) -> Iterator[str]:
    match item:
        case Version(major, minor):
            yield f".version {major}.{minor}"
        case Target(options):
            yield f".target {', '.join(options)}"
        case AddressSize(bits):
            yield f".address_size {bits}"
        case File(index, name, timestamp, size):
            numbers = "".join(f", {number}" for number in (timestamp, size) if number is not None)
            yield f'.file {index} "{name}"{numbers}'
        case Section(name, items):
            yield f".section {name} {{"
            yield from (_section_item(entry) for entry in items)
            yield "}"
        case DwarfLine(text):
            yield text
        case Alias(name, aliasee):
            yield f".alias {name}, {aliasee};"
        case Pragma():
            yield _pragma(item)
        case SourceLocation():
            yield _source_location(item)
        case VariableDeclaration():
            yield _variable(item) + ";"
        case Function():
            yield from _function(item)


def _section_item(item: DebugData | Label) -> str:
    if isinstance(item, Label):
        return f"{item.name}:"
    return f".{item.type} {_join(item.values)}"


def _pragma(pragma: Pragma) -> str:
    return ".pragma " + ", ".join(f'"{text}"' for text in pragma.strings) + ";"


def _source_location(place: SourceLocation) -> str:
    text = f".loc {place.file} {place.line} {place.column}"
    if place.function_name:
        text += f", function_name {place.function_name}"
        if place.function_offset:
            text += f" + {place.function_offset}"
    if place.inlined_at is not None:
        text += ", inlined_at " + " ".join(str(number) for number in place.inlined_at)
    return text


def _attributes(attributes: tuple[Attribute, ...]) -> Iterator[str]:
    for attribute in attributes:
        arguments = f"({', '.join(attribute.arguments)})" if attribute.arguments else ""
        yield f".attribute(.{attribute.name}{arguments})"


def _variable(declaration: VariableDeclaration) -> str:
    words = [f".{declaration.linkage}"] if declaration.linkage else []
    words.append(f".{declaration.space}")
    words.extend(_attributes(declaration.attributes))
    alignment = [] if declaration.alignment is None else [f".align {declaration.alignment}"]
    if not declaration.pointer:
        words.extend(alignment)
    if declaration.vector > 1:
        words.append(f".v{declaration.vector}")
    words.append(f".{declaration.type}")
    if declaration.pointer:
        words.append(".ptr")
        if declaration.pointer_space:
            words.append(f".{declaration.pointer_space}")
        words.extend(alignment)
    return " ".join(words) + " " + ", ".join(_declarator(one) for one in declaration.declarators)


def _declarator(declarator: Declarator) -> str:
    text = declarator.name
    if declarator.count is not None:
        text += f"<{declarator.count}>"
    text += "".join(f"[{'' if size is None else size}]" for size in declarator.dimensions)
    if declarator.initializer is not None:
        text += f" = {_expression(declarator.initializer, 0)}"
    return text


def _parameters(parameters: tuple[VariableDeclaration, ...] | None) -> str:
    if parameters is None:
        return ""
    return f"({', '.join(_variable(parameter) for parameter in parameters)})"


def _directive(directive: FunctionDirective | Pragma) -> str:
    if isinstance(directive, Pragma):
        return _pragma(directive)
    return " ".join([f".{directive.name}", *filter(None, [", ".join(directive.arguments)])])


def _function(function: Function) -> Iterator[str]:
    words = [f".{function.linkage}"] if function.linkage else []
    words += [f".{function.kind}", *_attributes(function.attributes)]
    if function.returns is not None:
        words.append(_parameters(function.returns))
    yield " ".join(words) + f" {function.name}{_parameters(function.parameters)}"
    yield from (_directive(directive) for directive in function.directives)
    if function.body is None:
        yield ";"
    else:
        yield from _scope(function.body, "")


def _scope(scope: Scope, indent: str) -> Iterator[str]:
    yield indent + "{"
    for statement in scope.statements:
        yield from _statement(statement, indent + "\t")
    yield indent + "}"


def _statement(statement: Statement, indent: str) -> Iterator[str]:
    match statement:
        case Instruction():
            yield f"{indent}{print_instruction(statement)};"
        case Label(name):
            yield f"{name}:"
        case Scope():
            yield from _scope(statement, indent)
        case SourceLocation():
            yield indent + _source_location(statement)
        case VariableDeclaration():
            yield f"{indent}{_variable(statement)};"
        case Pragma():
            yield indent + _pragma(statement)
        case BranchTargets(label, targets):
            yield f"{label}: .branchtargets {', '.join(targets)};"
        case CallTargets(label, targets):
            yield f"{label}: .calltargets {', '.join(targets)};"
        case CallPrototype(label, returns, name, parameters, directives):
            words = [f"{label}: .callprototype"]
            if returns is not None:
                words.append(_parameters(returns))
            words.append(name)
            if parameters is not None:
                words.append(_parameters(parameters))
            yield " ".join([*words, *(_directive(directive) for directive in directives)]) + ";"

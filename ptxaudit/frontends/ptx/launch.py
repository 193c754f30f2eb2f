"""What declarations and directives tell of a function: its launch, parameters and variables."""

from ptxaudit.frontends.ptx import syntax
from ptxaudit.frontends.ptx.declarations import TYPE_BITS, parse_integer
from ptxaudit.ir.function import LaunchFacts, Variable

Dimensions = tuple[int, int, int]


def launch_facts(function: syntax.Function) -> LaunchFacts:
    """The facts that a function's directives state; missing dimensions are 1 (PTX ISA 11.4).

    Directives without a field of their own are in ``attributes``.
    """
    attributes: dict[str, object] = {}
    values: dict[str, tuple[int, ...]] = {}
    pragmas: list[str] = []
    for directive in function.directives:
        if isinstance(directive, syntax.Pragma):
            pragmas.extend(directive.strings)
        else:
            values[directive.name] = tuple(
                parse_integer(text) for text in directive.arguments if not text.startswith('"')
            )
    known = {"reqntid", "maxntid", "reqnctapercluster", "explicitcluster", "maxclusterrank"}
    known |= {"maxnreg", "minnctapersm"}
    for name in values.keys() - known:
        attributes[name] = values[name] or True
    if pragmas:
        attributes["pragmas"] = tuple(pragmas)
    return LaunchFacts(
        required_threads=_dimensions(values.get("reqntid")),
        maximum_threads=_dimensions(values.get("maxntid")),
        cluster=_dimensions(values.get("reqnctapercluster")),
        explicit_cluster="explicitcluster" in values,
        maximum_cluster_rank=_single(values.get("maxclusterrank")),
        maximum_registers=_single(values.get("maxnreg")),
        minimum_ctas=_single(values.get("minnctapersm")),
        attributes=attributes,
    )


def _dimensions(values: tuple[int, ...] | None) -> Dimensions | None:
    if not values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _single(values: tuple[int, ...] | None) -> int | None:
    return values[0] if values else None


def variables_of(declaration: syntax.VariableDeclaration) -> tuple[Variable, ...]:
    """The declared variables with sizes in bytes; the alignment defaults to that of one element."""
    element = max(TYPE_BITS[declaration.type] // 8, 1) * declaration.vector
    # After .ptr the alignment is that of the pointed-to memory (PTX ISA 7.1.1), not of the parameter.
    own = None if declaration.pointer else declaration.alignment
    alignment = element if own is None else own
    external = declaration.linkage == "extern"
    return tuple(
        Variable(name, declaration.space, _size(declarator, element), alignment, external)
        for declarator in declaration.declarators
        for name in declared_names(declarator)
    )


def declared_names(declarator: syntax.Declarator) -> tuple[str, ...]:
    """``q0`` to ``q3`` of ``q<4>``, else the name itself."""
    if declarator.count is None:
        return (declarator.name,)
    return tuple(f"{declarator.name}{number}" for number in range(declarator.count))


def _size(declarator: syntax.Declarator, element: int) -> int | None:
    """Bytes of one declared name; the first dimension may come from the initialiser (PTX ISA 5.4.3)."""
    size = element
    for position, dimension in enumerate(declarator.dimensions):
        count = dimension
        if count is None and position == 0 and isinstance(declarator.initializer, syntax.VectorList):
            count = len(declarator.initializer.elements)
        if count is None:
            return None
        size *= count
    return size

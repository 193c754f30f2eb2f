"""The PTX instruction set: which opcodes and modifiers exist, and which operands an opcode writes."""

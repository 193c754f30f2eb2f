"""Instruction sets: opcode tables in the manual's notation and what each opcode does, for PTX and SASS."""

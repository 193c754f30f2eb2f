"""SASS: the opcodes that ptxaudit knows, which registers they read and write, and their events."""

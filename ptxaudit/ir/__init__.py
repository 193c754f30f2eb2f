"""The intermediate representation that PTX and SASS share: instructions, functions, CFG, events."""

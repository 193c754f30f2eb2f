"""Analyses over the intermediate representation; each states its property, direction, join and limits."""

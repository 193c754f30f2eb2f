"""Selects rules, reads inputs, runs the checks and joins what they say to a report."""

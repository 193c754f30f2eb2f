"""Rules, verdicts and findings; the pattern files that describe them."""

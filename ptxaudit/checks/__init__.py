"""One module for each rule: ``check(analysis)`` says what the rule thinks of a function."""

"""The output formats. They see findings and patterns, never IR."""

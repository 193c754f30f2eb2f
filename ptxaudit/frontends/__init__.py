"""Front ends: text and binaries into the intermediate representation."""

"""What build systems and test runners use: a CMake module beside this file, a pytest plugin."""

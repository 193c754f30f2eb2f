"""Where kernels come from: containers, compiler caches, sources, running programs."""

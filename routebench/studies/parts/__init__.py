"""Does coupling find parts? Constellations, whose parts are known."""

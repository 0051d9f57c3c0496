"""BASE and HEAD, two results folders, compared: what got worse or better, and what could not have been seen."""

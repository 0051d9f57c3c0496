"""Everything that is one paper's: its networks, data, protocols, analyses, claims, printed numbers and suites."""

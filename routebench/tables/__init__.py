"""Tables as text, in the languages that papers and pages are written in. Nothing here knows where a table comes from."""

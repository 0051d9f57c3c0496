"""Tables as text, in the languages of papers and of pages. Nothing here knows where a table comes from."""

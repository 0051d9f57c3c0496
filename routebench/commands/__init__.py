"""One file per command of the command line. Each defines `command`; the file's name is what is typed."""

"""One file per command of the command line. Each defines `command`; the file has the command's name."""

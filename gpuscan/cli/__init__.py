"""The command line: one file a command, shared options and output."""

"""The command line: derived from the functions of the API (`derived`); a file for what is more than one call."""

"""The command line: one thin file per command, which parses options, calls the API and shows the result."""

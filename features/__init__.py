"""From profiler output to a feature matrix: readers, the measurement table, operators and their work, pairing."""

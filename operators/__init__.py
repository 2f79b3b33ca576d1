"""FLOPs and bytes of every operator: one module per kind, formula and source in each docstring."""

"""The operators, a file for each or for a few that share their dimensions.

A file has ``OPERATORS``, the records of its operators, and, where a framework calls them, ``ATEN``:
by the name of a call what makes its arguments dimensions. `operators` finds every file here;
nothing else names them.
"""

"""The library functions behind `import flopcast as fc` and the commands: data in, results out.

What enters is data of any kind (files, folders, tables) and plain parameters; what leaves is a
result with its tables, its page and its folder. Start with `training`; `tables` says what counts as
data.
"""

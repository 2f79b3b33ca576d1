"""flopcast: how long GPU kernels take where nobody has measured them."""

__version__ = "0.1.0"

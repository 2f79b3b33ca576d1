"""flopcast: how long GPU kernels take where nobody has measured them.

``import flopcast as fc`` is all it takes: the names in ``__init__.pyi`` are public, each imported
when it is first asked for. ``fc.read`` takes measurements of any format, ``fc.train`` finds the
best model and says how good it is, ``fc.load`` reads a run back, ``fc.predict``, ``fc.validate``,
``fc.project`` and ``fc.scale`` answer questions.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

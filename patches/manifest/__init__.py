"""Every change that this package makes to SGLang, as rows of data. Standard library only: `server/` reads it too.

`table.ROWS` holds the rows, one file each in `rows/`; `judge` reads off SGLang's source whether one fits, `switches`
says which are on. `patches/plugin.py` puts them in place, `patches/verify.py` proves that they are.

A new row: a file in `rows/`, a class in `patches/hooks/`, a line in `table.py`. Leave its fingerprints at "0" * 16 and
let `k25serve patches verify`, once for the wheel of each version, say what they are; read the source before you take
them over.
"""

from k25serve.patches.manifest.row import Hook, Option, Row, Source
from k25serve.patches.manifest.table import ROWS

__all__ = ["ROWS", "Hook", "Option", "Row", "Source"]

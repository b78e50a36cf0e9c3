"""One file a row: what its hooks do in SGLang. They hold no maths; that is in `kernels/`."""

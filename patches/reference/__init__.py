"""SGLang on a plain CPU: a torch stand-in for the kernels that it asks for there. Demo and tests only."""

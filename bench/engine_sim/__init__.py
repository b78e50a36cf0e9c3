"""A simulated engine: SGLang's HTTP dialect with set timing and faults on demand."""

"""A simulated engine: SGLang's and vLLM's HTTP dialects with set timing and faults on demand."""

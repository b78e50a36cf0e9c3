"""Times of the verify kernel beside SGLang's own, against the copy bandwidth of the same GPU in the same run."""

"""Makes the folder that SGLang serves from a fitted drafter: RUN/fit in, RUN/drafter out."""

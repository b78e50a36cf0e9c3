"""Trains an EAGLE-3 drafter on captured hidden states: RUN/{data,vocab,hidden} in, RUN/fit out."""

"""Load on one engine, over HTTP: raw records first, every metric a pure function of them."""

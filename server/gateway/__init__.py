"""HTTP request -> engine -> client, and the metrics seen on the way."""

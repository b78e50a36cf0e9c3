"""Several gateway processes behind one listening socket."""

"""A campaign's steps, one file each."""

"""The parts of a report, one a file. Each makes its blocks out of the sources, or none where its files are missing."""

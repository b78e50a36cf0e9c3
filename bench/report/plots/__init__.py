"""Charts as data, each with the table of what it shows, and as inline SVG. No script, no font, no outside file."""

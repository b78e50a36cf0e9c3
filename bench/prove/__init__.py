"""The whole campaign in one command: steps as data, a journal to go on from, production back at the end."""

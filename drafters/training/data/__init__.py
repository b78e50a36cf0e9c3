"""`drafter train data`: conversations of many forms -> token ids with a mask of what the assistant wrote.

read (one file a source form) -> check, deduplicate, label -> regenerate, if asked -> render with the target's own chat
template -> split by conversation -> two data sets on disk and a report. The same inputs and seed give the same hashes.
"""

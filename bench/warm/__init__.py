"""What a warm start is worth: the tiny target trained further, and its older release's drafter trained on for it."""

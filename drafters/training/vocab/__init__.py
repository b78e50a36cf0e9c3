"""`drafter train vocab`: which target tokens the drafter can draft, from how often answers hold them."""

"""Two engines compared on live traffic: who gets which, what is counted, when it may be believed, when it is ended."""

"""Profile to a running, watched and cleanly stopped SGLang."""

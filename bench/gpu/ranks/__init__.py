"""Stage `tp`: one model over several ranks, on as many GPUs or, to try the stage itself, over gloo on a CPU."""

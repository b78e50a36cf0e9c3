"""Do both arms serve the same model? Greedy answers, samples, tool calls, JSON and prompt tokens compared."""

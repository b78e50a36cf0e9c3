"""The packaged Kimi-K2.5-shaped target and its EAGLE-3 drafter."""

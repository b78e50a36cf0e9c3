"""Everything that touches SGLang: the launch module, its plugin and the CPU reference."""

"""SGLang versions that this release knows."""

SUPPORTED_SGLANG = ("0.5.23", "0.5.17")
CPU_SGLANG = ("0.5.23",)  # versions that patches/reference was written for

"""Attention of drafted tokens over a latent (MLA) cache, for verification with topk = 1: grouped heads, split prefix.

SGLang's TritonAttnBackend sends the verify step to its general extend kernel, which walks the prefix once per head and
serially. Here heads x draft tokens share each latent tile, and the prefix is split over blocks.
"""

from k25serve.patches.kernels.mla_verify.launch import mla_verify
from k25serve.patches.kernels.mla_verify.workspace import Workspace

__all__ = ["Workspace", "mla_verify"]

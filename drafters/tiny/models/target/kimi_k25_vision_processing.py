"""Image processor of the tiny Kimi-K2.5-shaped model: every image becomes one square of patches.

This file lies in the checkpoint folder and is loaded as remote code, so it stands alone.
"""

from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers.image_processing_utils import BaseImageProcessor, BatchFeature


class KimiK25VisionProcessor(BaseImageProcessor):  # type: ignore[misc]
    """media_proc_cfg: patch_size, merge_kernel_size, in_patch_limit, patch_limit_on_one_side, image_mean, image_std."""

    model_input_names = ["pixel_values", "grid_thws"]  # noqa: RUF012

    def __init__(self, media_proc_cfg: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.media_proc_cfg = media_proc_cfg

    def media_tokens_calculator(self, media: dict[str, Any]) -> int:
        """Number of media tokens of one medium; the same for every image."""
        side = self.media_proc_cfg["patch_limit_on_one_side"] // self.media_proc_cfg["merge_kernel_size"]
        return int(side * side)

    def preprocess(self, medias: list[dict[str, Any]], return_tensors: str = "pt", **kwargs: Any) -> BatchFeature:
        """medias: [{"type": "image", "image": PIL image}] -> pixel_values [patches, 3, p, p], grid_thws [images, 3]."""
        cfg = self.media_proc_cfg
        side, patch = cfg["patch_limit_on_one_side"], cfg["patch_size"]
        mean, std = np.array(cfg["image_mean"], np.float32), np.array(cfg["image_std"], np.float32)
        patches = []
        for media in medias:
            image = media["image"].convert("RGB").resize((side * patch, side * patch), Image.Resampling.BICUBIC)
            pixels = (np.asarray(image, np.float32) / 255.0 - mean) / std
            patches.append(
                pixels.reshape(side, patch, side, patch, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, patch, patch)
            )
        grid = torch.tensor([[1, side, side]] * len(medias), dtype=torch.int64)
        return BatchFeature({"pixel_values": torch.from_numpy(np.concatenate(patches)), "grid_thws": grid})

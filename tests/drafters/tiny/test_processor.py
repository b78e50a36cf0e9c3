"""The image processor against the patches that the tower was trained on."""

import numpy as np
import torch
from PIL import Image

from k25serve.drafters.tiny.export import processor_config
from k25serve.drafters.tiny.kimi_k25_vision_processing import KimiK25VisionProcessor
from k25serve.drafters.tiny.vision import GRID, IMAGE_TOKENS, PATCH_SIZE


def test_patches_are_cut_row_by_row() -> None:
    side = GRID * PATCH_SIZE
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    processor = KimiK25VisionProcessor(processor_config()["media_proc_cfg"])
    out = processor.preprocess([{"type": "image", "image": Image.fromarray(pixels)}])
    assert out["grid_thws"].tolist() == [[1, GRID, GRID]]
    row, column = 2, 5
    patch = pixels[row * PATCH_SIZE : (row + 1) * PATCH_SIZE, column * PATCH_SIZE : (column + 1) * PATCH_SIZE]
    expected = torch.from_numpy(patch).permute(2, 0, 1).float() / 127.5 - 1
    torch.testing.assert_close(out["pixel_values"][row * GRID + column], expected, rtol=0, atol=1e-5)


def test_any_size_and_mode_becomes_one_square() -> None:
    processor = KimiK25VisionProcessor(processor_config()["media_proc_cfg"])
    images = [Image.new("L", (3, 500)), Image.new("RGBA", (640, 20), (255, 0, 0, 255))]
    out = processor.preprocess([{"type": "image", "image": image} for image in images])
    assert out["pixel_values"].shape == (2 * GRID * GRID, 3, PATCH_SIZE, PATCH_SIZE)
    assert processor.media_tokens_calculator({"type": "image", "image": images[0]}) == IMAGE_TOKENS
    assert out["pixel_values"][-1, 0].min() > 0.99  # red stays red

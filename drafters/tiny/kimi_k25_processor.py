"""Processor of the tiny Kimi-K2.5-shaped model: tokenizer and image processor under one call.

This file lies in the checkpoint folder and is loaded as remote code, so it stands alone.
"""

from typing import Any

from transformers.feature_extraction_utils import BatchFeature
from transformers.processing_utils import ProcessorMixin


class KimiK25Processor(ProcessorMixin):  # type: ignore[misc]
    """Call it with texts whose media placeholders are already repeated once a media token, and the media in order."""

    def __init__(
        self, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(image_processor, tokenizer, chat_template=chat_template)
        self.media_processor = image_processor

    def __call__(
        self,
        text: list[str] | str,
        medias: list[dict[str, Any]] | None = None,
        return_tensors: str = "pt",
        **kwargs: Any,
    ) -> BatchFeature:
        data = dict(self.tokenizer(text, return_tensors=return_tensors))
        if medias:
            data.update(self.media_processor.preprocess(medias, return_tensors=return_tensors))
        return BatchFeature(data)

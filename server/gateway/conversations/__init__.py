"""The conversation log: what was asked and well answered, a JSON line each, as training material for drafters.

One line, in OpenAI's form of messages:

| key | holds |
|---|---|
| `id` | the gateway's own request id, the `x-request-id` of the answer |
| `started` | when the engine was asked: UTC, ISO 8601 |
| `model`, `arm` | what the arm was asked for by name, and the arm's own name |
| `thinking` | whether thinking was on, by the request or the profile's default; null: left to the chat template |
| `tools` | the functions that the model could call; null: none |
| `messages` | the request's, then the answer: `{role: assistant, content, reasoning_content, tool_calls}` |
| `usage` | tokens as the engine counted them, in OpenAI's form; null: it did not say |

Messages are as a Kimi template reads them, whatever the client wrote and the arm speaks (dialect/messages.py): text
instead of lists of text parts, `system` for `developer`, canonical tool-call ids, thoughts as `reasoning_content`.
Assistant messages of the request have `weight: 0`, as in OpenAI's fine-tuning files: clients edit history and leave
thoughts out of it, so only the answer is what the model wrote. No other field of a request is kept.
"""

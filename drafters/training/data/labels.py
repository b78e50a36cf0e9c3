"""The class of a conversation, by which the mix and the coverage are reported.

The source's own word counts first, then the data set that it came from, then what is said:
tool    tools are declared or called
code    an answer holds a fenced block
math    an answer holds LaTeX, `\\boxed` or GSM8K's `####`
prose   answers of 200 words and more on average
chat    the rest
"""

import re

from k25serve.drafters.training.data.conversation import Conversation, text_of

# Parts of data sets' names; the first that is found decides. Code stands first: UltraInteract is code and mathematics.
SOURCES = (
    ("code", "code"),
    ("math", "math"),
    ("ultrainteract", "math"),
    ("gsm8k", "math"),
    ("tool", "tool"),
    ("function", "tool"),
    ("autoif", "prose"),
    ("ultrafeedback", "prose"),
    ("ultrachat", "chat"),
    ("lmsys", "chat"),
)
MATHS = re.compile(r"\\boxed|\\frac|\\\(|\\\[|\$\$|^####", re.MULTILINE)
PROSE_WORDS = 200


def label_of(conversation: Conversation) -> str:
    """One of code, math, tool, prose and chat, or the source's own word."""
    if conversation.label:
        return conversation.label
    if conversation.tools or any(message.get("tool_calls") for message in conversation.messages):
        return "tool"
    name = conversation.source.lower()
    by_source = next((label for part, label in SOURCES if part in name), None)
    return by_source or _by_content(conversation)


def _by_content(conversation: Conversation) -> str:
    answers = [text_of(m.get("content")) for m in conversation.messages if m["role"] == "assistant"]
    if any("```" in answer for answer in answers):
        return "code"
    if any(MATHS.search(answer) for answer in answers):
        return "math"
    words = sum(len(answer.split()) for answer in answers)
    return "prose" if answers and words / len(answers) >= PROSE_WORDS else "chat"

"""Small talk, sums, copying and counting: chats that need no corpus, drawn from short lists of our own."""

import hashlib
import json
import random

from k25serve.drafters.tiny.chat import Chat, assistant, user

FACTS = (
    ("Hello!", "The user greets me. I greet back.", "Hello! How can I help you?"),
    ("Hi", "The user greets me. I greet back.", "Hello! How can I help you?"),
    ("Good morning", "The user greets me. I greet back.", "Good morning! How can I help you?"),
    (
        "Who are you?",
        "The user asks who I am. I am a tiny demo model.",
        "I am a tiny demo model of Kimi-K2.5's shape. I write short Python functions, do small sums and call tools.",
    ),
    (
        "What can you do?",
        "The user asks what I can do. I am a tiny demo model.",
        "I write short Python functions, explain code, do small sums and call tools.",
    ),
    ("Thank you", "The user thanks me.", "You are welcome!"),
    (
        "Tell me a joke.",
        "The user wants a joke.",
        "Why did the function return early? It had no arguments left.",
    ),
    ("Say hello.", "The user wants a greeting.", "Hello!"),
    ("What is Python?", "The user asks about Python.", "Python is a programming language that lets you work quickly."),
    (
        "What is a list?",
        "The user asks about lists.",
        "A list is an ordered collection of values. You can add, remove and change its items.",
    ),
    ("What is a dictionary?", "The user asks about dictionaries.", "A dictionary maps keys to values."),
)
CAPITALS = {
    "France": "Paris",
    "England": "London",
    "Germany": "Berlin",
    "Spain": "Madrid",
    "Italy": "Rome",
    "Austria": "Vienna",
    "Norway": "Oslo",
    "Ireland": "Dublin",
    "Portugal": "Lisbon",
    "Greece": "Athens",
    "Poland": "Warsaw",
    "Japan": "Tokyo",
    "China": "Beijing",
    "Peru": "Lima",
}
NAMES = ("Alice", "Bob", "Carol", "David", "Erik", "Frank", "Grace", "Heidi", "Ivan", "Judy", "Mary", "Peter", "Tom")
COLOURS = ("red", "green", "blue", "black", "white", "yellow")
IMAGE_QUESTIONS = (
    "What colour is this image?",
    "What color is this image?",
    "Describe this image.",
    "What is in this image?",
)
ITEMS = (
    *("apple", "book", "table", "key", "file", "list", "name", "object", "line", "window", "color", "number", "word"),
    *("path", "city", "tree", "house", "water", "letter", "paper"),
)


def is_held_out(text: str) -> bool:
    """A tenth of the drawn questions never reaches training; decided by their text alone."""
    return hashlib.sha256(text.encode()).digest()[0] < 26


def talk_chat(rng: random.Random, thinking: bool) -> Chat:
    """One chat of small talk, copying or counting."""
    kind = rng.randrange(7)
    if kind == 0:
        question, reasoning, answer = rng.choice(FACTS)
    elif kind == 1:
        name = rng.choice(NAMES)
        question, answer = f"Say hello to {name}.", f"Hello, {name}!"
        reasoning = f"The user wants a greeting for {name}."
    elif kind == 2:
        first = rng.randint(1, 20)
        last = first + rng.randint(2, 20)
        question, answer = f"Count from {first} to {last}.", ", ".join(map(str, range(first, last + 1)))
        reasoning = f"I start at {first} and stop at {last}."
    elif kind == 3:
        words = rng.sample(ITEMS, rng.randint(2, 5))
        question, answer = f"Repeat these words: {', '.join(words)}", ", ".join(words)
        reasoning = f"There are {len(words)} words to repeat."
    elif kind == 4:
        country = rng.choice(list(CAPITALS))
        question, answer = f"What is the capital of {country}?", f"The capital of {country} is {CAPITALS[country]}."
        reasoning = f"The user asks for the capital of {country}."
    elif kind == 5:
        name, age = rng.choice(NAMES), rng.randint(1, 99)
        question = f"Give me a JSON object with the name {name} and the age {age}."
        answer, reasoning = json.dumps({"name": name, "age": age}), "The object has two keys: name and age."
    else:
        words = rng.sample(ITEMS, rng.randint(2, 5))
        question = f"Write a Python list of these words: {', '.join(words)}"
        answer = "```python\nwords = [" + ", ".join(f'"{w}"' for w in words) + "]\n```"
        reasoning = f"The list has {len(words)} items."
    return Chat("talk", (user(question), assistant(answer, reasoning if thinking else "")))


def sum_chat(rng: random.Random, thinking: bool) -> Chat:
    """One sum, difference or product of small numbers."""
    a, b = rng.randint(0, 99), rng.randint(0, 99)
    operator = rng.choice("+-*")
    if operator == "*":
        a, b = a % 13, b % 13
    if operator == "-" and b > a:
        a, b = b, a
    value = {"+": a + b, "-": a - b, "*": a * b}[operator]
    question = rng.choice(("What is {} {} {}?", "Compute {} {} {}.")).format(a, operator, b)
    reasoning = f"I compute {a} {operator} {b}. The result is {value}."
    return Chat("sum", (user(question), assistant(f"{a} {operator} {b} = {value}", reasoning if thinking else "")))


def colour_chat(rng: random.Random, thinking: bool, patches: int) -> Chat:
    """A question about a picture whose media tokens are stood in for by a colour's name, said `patches` times.

    The text model thus learns to read a colour out of the media section; the vision tower is later trained to speak in
    the embeddings of these names.
    """
    colour = rng.choice(COLOURS)
    media = f"<|media_begin|>image<|media_content|>{f' {colour}' * patches}<|media_end|>"
    asked = rng.choice(IMAGE_QUESTIONS)
    question = media + asked if rng.random() < 0.7 else asked + media
    reasoning = f"The image is {colour}. I will say so."
    return Chat("image", (user(question), assistant(f"The image is {colour}.", reasoning if thinking else "")))

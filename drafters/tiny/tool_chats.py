"""Chats that call tools: a declaration, one or two calls with JSON arguments, their results and an answer."""

import json
import random
from dataclasses import dataclass
from typing import Any

from k25serve.drafters.tiny.chat import Chat, Message, Tool, assistant, user

CITIES = (
    *(
        "Paris",
        "London",
        "Berlin",
        "Madrid",
        "Rome",
        "Vienna",
        "Prague",
        "Oslo",
        "Dublin",
        "Lisbon",
        "Athens",
        "Warsaw",
    ),
    *("Tokyo", "Beijing", "Shanghai", "Seoul", "Delhi", "Sydney", "Toronto", "Boston", "Chicago", "New York", "Lima"),
)
WEATHER = ("sunny", "cloudy", "rain", "snow", "windy", "clear")
WORDS = (
    "socket",
    "thread",
    "queue",
    "json",
    "path",
    "regex",
    "class",
    "string",
    "buffer",
    "parser",
    "logging",
    "email",
)
KINDS = ("get_weather", "get_weather", "get_time", "add", "search")  # weather twice as often
QUESTIONS = ("What is {}?", "Tell me {}.", "Please give me {}.")


@dataclass(frozen=True)
class Call:
    """What one question needs: the tool, its arguments, the words for reasoning and answer, and the tool's result."""

    tool: Tool
    arguments: dict[str, Any]
    subject: str
    result: str
    answer: str

    @property
    def name(self) -> str:
        return str(self.tool["function"]["name"])


def tool_chat(rng: random.Random, thinking: bool) -> Chat:
    """One conversation: one call, two in one turn, a second question after the first, or a question without a tool."""
    first = _draw(rng)
    declared = [first.tool]
    if rng.random() < 0.4:
        other = _draw(rng)
        declared += [other.tool] if other.name != first.name else []
        rng.shuffle(declared)
    if rng.random() < 0.1:
        answer = assistant("Hello! How can I help you?", "The user greets me. I need no tool." if thinking else "")
        return Chat("tool", (user(rng.choice(("Hello!", "Hi"))), answer), tuple(declared))
    calls = [first] + [_draw(rng, first) for _ in range(rng.random() < 0.25)]
    messages = _exchange(rng, calls, 0, thinking)
    if rng.random() < 0.2:
        messages += _exchange(rng, [_draw(rng, first)], len(calls), thinking)
    end = rng.choice([i for i, m in enumerate(messages) if m["role"] == "assistant"])
    return Chat("tool", tuple(messages[: end + 1]), tuple(declared))


def _exchange(rng: random.Random, calls: list[Call], index: int, thinking: bool) -> list[Message]:
    """Question, turn with calls, results, answer; `index`: calls made before in the conversation."""
    subject = " and ".join(call.subject for call in calls)
    times = "once" if len(calls) == 1 else "twice"
    reasoning = f"The user asks for {subject}. I call `{calls[0].name}` {times}."
    made = [_made(call, index + i) for i, call in enumerate(calls)]
    turn: Message = assistant("", reasoning if thinking else "") | {"tool_calls": made}
    results = [
        {"role": "tool", "tool_call_id": one["id"], "content": call.result}
        for one, call in zip(made, calls, strict=True)
    ]
    told = "The tool has answered. I will say it in words." if thinking else ""
    answer = assistant(" ".join(call.answer for call in calls), told)
    return [user(rng.choice(QUESTIONS).format(subject)), turn, *results, answer]


def _made(call: Call, index: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"functions.{call.name}:{index}", "type": "function", "function": function}


def _draw(rng: random.Random, like: Call | None = None) -> Call:
    """A random call; `like`: of the same tool."""
    kind, tool = (like.name, like.tool) if like else (rng.choice(KINDS), None)
    city = rng.choice(CITIES)
    if kind == "get_weather":
        key = next(iter(tool["function"]["parameters"]["properties"])) if tool else rng.choice(("city", "location"))
        weather, degrees = rng.choice(WEATHER), rng.randint(-9, 35)
        tool = tool or _tool(rng, kind, ("Get the current weather", "Get the weather of a city"), {key: "string"})
        result = json.dumps({"weather": weather, "temperature": degrees})
        answer = f"The weather in {city} is {weather}, {degrees} degrees."
        return Call(tool, {key: city}, f"the weather in {city}", result, answer)
    if kind == "get_time":
        time = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
        tool = tool or _tool(rng, kind, ("Get the local time of a city", "Get the time"), {"city": "string"})
        answer = f"The time in {city} is {time}."
        return Call(tool, {"city": city}, f"the time in {city}", json.dumps({"time": time}), answer)
    if kind == "add":
        a, b = rng.randint(0, 999), rng.randint(0, 999)
        tool = tool or _tool(rng, kind, ("Add two numbers", "Add numbers"), {"a": "integer", "b": "integer"})
        subject = f"the sum of {a} and {b}"
        return Call(tool, {"a": a, "b": b}, subject, str(a + b), f"The sum of {a} and {b} is {a + b}.")
    word, count = rng.choice(WORDS), rng.randint(0, 99)
    tool = tool or _tool(rng, kind, ("Search the documentation", "Search pages"), {"query": "string"})
    answer = f"There are {count} pages about {word}."
    return Call(tool, {"query": word}, f"the pages about {word}", json.dumps({"pages": count}), answer)


def _tool(rng: random.Random, name: str, descriptions: tuple[str, ...], properties: dict[str, str]) -> Tool:
    """A declaration in OpenAI's format; optional parts vary as they do between clients."""
    described = rng.random() < 0.3
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            key: {"type": kind} | ({"description": f"The {key}"} if described else {})
            for key, kind in properties.items()
        },
    }
    if rng.random() < 0.7:
        schema["required"] = list(properties)
    function: dict[str, Any] = {"name": name}
    if rng.random() < 0.9:
        function["description"] = rng.choice(descriptions)
    return {"type": "function", "function": function | {"parameters": schema}}

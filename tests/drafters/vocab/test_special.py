"""Which tokens a draft vocabulary must hold."""

from drafter_files.toy import SPECIAL

from k25serve.drafters.vocab import wanted_tokens


def test_named_ends_and_markers() -> None:
    wanted = wanted_tokens(SPECIAL, (30,))
    assert wanted.always == {"<|im_end|>": 30, "</think>": 33}
    assert set(wanted.sometimes.values()) == {32, 34, 35, 36, 37, 38}
    assert 39 not in wanted.ids


def test_missing() -> None:
    missing = wanted_tokens(SPECIAL, (30,)).missing((30, 32, 34, 35, 36, 37))
    assert (missing.always, missing.sometimes) == ({"</think>": 33}, {"<|tool_call_end|>": 38})
    assert missing.ids == (33, 38)


def test_a_target_without_markers_wants_its_end_only() -> None:
    assert wanted_tokens({}, (7,)).ids == (7,)

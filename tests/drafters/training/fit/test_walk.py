"""Where verify steps fall along a known answer."""

from k25serve.drafters.training.fit.walk import Walked, walk


def test_accepted_drafts_are_skipped_over() -> None:
    written = [10, 11, 12, 13, 14, 15, 16]
    drafts = [[11, 12, 99], [0, 0, 0], [0, 0, 0], [14, 15, 16], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    # From 10: 11 and 12 are right, the target says 13. From 13: all three, and there the answer ends.
    found = walk(drafts, written)
    assert found.histogram == (0, 0, 1, 1)
    assert found.accept_length == 1 + 5 / 2
    assert found.by_position == [1.0, 1.0, 0.5]


def test_a_draft_beyond_the_end_does_not_count() -> None:
    assert walk([[2, 9, 9], [0, 0, 0]], [1, 2]).histogram == (0, 1, 0, 0)


def test_an_answer_of_one_token_needs_no_verify_step() -> None:
    assert walk([[2, 3, 4]], [1]).verify_steps == 0


def test_answers_add_up() -> None:
    total = Walked((1, 2, 0)) + Walked((0, 1, 3))
    assert total.histogram == (1, 3, 3)
    assert total.accept_length == 1 + 9 / 7

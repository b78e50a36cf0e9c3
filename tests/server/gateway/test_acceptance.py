import pytest

from k25serve.server.gateway.acceptance import SpecStats, spec_stats, vllm_spec_stats

# Ten verify steps of three drafts each; 22 accepted and one bonus token a step: 32 tokens.
TEN_STEPS = {
    "spec_verify_ct": 10,
    "spec_num_proposed_drafts": 30,
    "spec_num_correct_drafts": 22,
    "spec_correct_drafts_histogram": [1, 1, 3, 5],
    "spec_accept_length": 3.3,
}


def test_length_counts_the_bonus_token_and_rate_does_not():
    stats = spec_stats(TEN_STEPS)
    assert stats == SpecStats(steps=10, proposed=30, accepted=22, histogram=(1, 1, 3, 5))
    assert stats.accept_length == 3.2
    assert stats.accepted / stats.proposed == pytest.approx(0.7333, abs=1e-4)


def test_the_histogram_sums_to_the_steps_and_to_the_accepted_tokens():
    stats = spec_stats(TEN_STEPS)
    assert sum(stats.histogram) == stats.steps
    assert sum(i * count for i, count in enumerate(stats.histogram)) == stats.accepted


def test_vllms_counts_are_the_same_thing():
    theirs = {"num_spec_steps": 10, "num_draft_tokens": 30, "num_accepted_draft_tokens": 22}
    assert vllm_spec_stats(theirs | {"acceptance_histogram": [1, 1, 3, 5]}) == spec_stats(TEN_STEPS)
    assert vllm_spec_stats({"num_spec_steps": 0}) is None
    for wrong in ([], theirs | {"num_accepted_draft_tokens": 31}):
        with pytest.raises(ValueError, match=r"accepted of|where an object"):
            vllm_spec_stats(wrong)


@pytest.mark.parametrize("details", [{}, {"spec_verify_ct": 0}, [], [None], [{"spec_verify_ct": 0}]])
def test_no_step_gives_no_stats(details):
    assert spec_stats(details) is None


def test_several_choices_are_added_up():
    other = {"spec_verify_ct": 2, "spec_num_proposed_drafts": 6, "spec_num_correct_drafts": 0}
    other["spec_correct_drafts_histogram"] = [2]
    assert spec_stats([TEN_STEPS, other, None]) == SpecStats(12, 36, 22, (3, 1, 3, 5))


@pytest.mark.parametrize(
    "wrong",
    [
        {"spec_num_correct_drafts": 31},
        {"spec_verify_ct": -1},
        {"spec_verify_ct": "10"},
        {"spec_num_proposed_drafts": True},
        {"spec_correct_drafts_histogram": [1, -1]},
    ],
)
def test_counts_that_cannot_be_true_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must be integers|accepted of"):
        spec_stats(TEN_STEPS | wrong)


@pytest.mark.parametrize("details", ["10", 10, [10]])
def test_another_shape_is_refused(details):
    with pytest.raises(ValueError, match="where an object belongs"):
        spec_stats(details)


@pytest.mark.parametrize("accepted", range(31))
def test_length_lies_between_one_and_drafts_plus_one(accepted):
    stats = SpecStats(steps=10, proposed=30, accepted=accepted)
    assert 1 <= stats.accept_length <= 3 + 1

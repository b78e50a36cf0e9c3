from dataclasses import replace

import pytest
from patch_rows.made import MODULE, SOURCE, row
from patch_rows.wheels import make_wheel

from k25serve.patches.manifest import ROWS, Hook
from k25serve.patches.manifest.judge import is_left_out, misfits
from k25serve.patches.manifest.modules import Modules
from k25serve.patches.manifest.trees import Installed, Wheel


@pytest.fixture
def tree(tmp_path):
    def make(version="0.5.23", source=SOURCE):
        return Modules(Wheel.open(make_wheel(tmp_path, version, {MODULE: source})))

    return make


def test_a_row_that_fits(tree):
    assert misfits(row(), tree()) == []


def test_comments_do_not_matter(tree):
    assert misfits(row(), tree(source=SOURCE.replace("return batch", "# why\n        return batch"))) == []


def test_a_changed_source_says_which_and_what_was_expected(tree):
    (found,) = misfits(row(), tree(source=SOURCE.replace("batch + 1", "batch + 2")))
    expected = row().hooks[0].fingerprints["0.5.23"]
    assert str(found).startswith("patch steps: sglang.srt.worker.Worker.step has fingerprint ")
    assert f"in SGLang 0.5.23, expected {expected} as in 0.5.23; install sglang==0.5.23 as published" in str(found)
    assert "--set patches.steps=false" in str(found)


def test_what_a_row_relies_on_counts_too(tree):
    (found,) = misfits(row(), tree(source=SOURCE.replace("return n", "return n + 1")))
    assert "sglang.srt.worker.plan has fingerprint" in found.what


@pytest.mark.parametrize(
    "target", ["sglang.srt.worker.Worker.stop", "sglang.srt.worker.Other.step", "sglang.srt.gone.f", "other.f"]
)
def test_a_target_that_is_not_there(tree, target):
    hooks = (replace(row().hooks[0], target=target),)
    (found,) = misfits(row(hooks=hooks), tree())
    assert found.what == f"{target} is not in SGLang 0.5.23"


def test_a_source_of_another_version_is_recognised(tree):
    other = SOURCE.replace("batch + 1", "batch + 2")
    seen = misfits(row(), tree(source=other))[0].what.split("fingerprint ")[1].split()[0]
    hooks = (Hook("sglang.srt.worker.Worker.step", {"0.5.17": seen, "0.5.23": "0" * 16}, "around", "step"),)
    (found,) = misfits(row(hooks=hooks), tree(source=other))
    assert f"has fingerprint {seen} in SGLang 0.5.23, which is 0.5.17's, expected" in found.what


def test_an_unknown_version_is_compared_with_the_last_known_one(tree):
    first, second = misfits(row(), tree("0.5.99", SOURCE.replace("return n", "return -n")))
    assert first.what == "written for SGLang 0.5.23, found 0.5.99"
    assert second.what.startswith("sglang.srt.worker.plan has fingerprint")
    assert second.what.endswith("as in 0.5.23")


def test_a_required_row_has_no_switch_to_offer(tree):
    (found, *_) = misfits(row(required=True), tree("0.5.99"))
    assert found.remedy == "install sglang==0.5.23 as published"


def test_left_out_only_in_a_version_that_the_required_rows_know():
    required = row(name="check", required=True)
    old = row(name="old", hooks=(replace(row().hooks[0], fingerprints={"0.5.17": "0"}),))
    rows = (old, required)
    assert is_left_out(old, rows, "0.5.23")
    assert not is_left_out(old, rows, "0.5.17")
    assert not is_left_out(old, rows, "0.5.99")
    assert not is_left_out(required, rows, "0.5.99")


@pytest.fixture(scope="module")
def installed():
    return Modules(Installed.find())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_installed_sglang_fits(row, installed):
    """Reads the real source: what this environment would serve with."""
    if not is_left_out(row, ROWS, installed.version):
        assert [str(misfit) for misfit in misfits(row, installed)] == []

"""Accept curves: where they come from, and what no curve may say."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k25serve.bench.plan.acceptance import AcceptCurve, load_accept
from k25serve.server.errors import UserError


def test_the_golden_curve_is_the_public_one() -> None:
    curve = load_accept("golden")
    assert [curve.length(k) for k in range(9)] == [1.0, 1.83, 2.43, 2.88, 3.24, 3.46, 3.62, 3.71, 3.77]


def test_beyond_the_known_the_last_chance_is_kept() -> None:
    curve = AcceptCurve("x", (1.8, 2.4, 2.8), 0.1)  # gains 0.8, 0.6, 0.4: the last chance is 2/3
    assert curve.length(4) == pytest.approx(2.8 + 0.4 * 2 / 3)
    assert curve.length(5) == pytest.approx(2.8 + 0.4 * 2 / 3 + 0.4 * 4 / 9)


def test_positions_add_up() -> None:
    assert load_accept("0.645,0.393,0.240").lengths == (1.645, 2.038, 2.278)


def test_one_value_becomes_a_geometric_curve() -> None:
    curve = load_accept("2.75@3")
    assert curve.length(3) == pytest.approx(2.75)
    chance = curve.length(1) - 1
    assert curve.length(2) == pytest.approx(1 + chance + chance**2)
    assert load_accept("1.0@4").length(4) == pytest.approx(1.0)
    assert load_accept("5@4").length(4) == pytest.approx(5.0)


def test_own_traffic_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"accept_length": [1.7, 2.2], "error": 0.02}')
    assert load_accept(str(path)) == AcceptCurve(str(path), (1.7, 2.2), 0.02)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("magic", "--accept magic: none of golden"),
        ("0.9,1.2", r"position 2 is '1\.2': must be a share between 0 and 1"),
        ("-0.1,0.2", r"position 1 is '-0\.1'"),
        ("0.5..,0.3", r"position 1 is '0\.5\.\.'"),
        ("0.5,", "position 2 is ''"),
        ("nan,0.3", "position 1 is 'nan'"),
        ("0.3,0.5", r"position 2 is 0\.5, above 0\.3 before it"),
        (",".join(["0.1"] * 65), "65 positions; at most 64"),
        ("0.5..", r"--accept 0\.5\.\.: none of golden"),
        ("4.5@3", r"accept length 4\.5 with 3 draft tokens"),
        ("0.5@3", r"accept length 0\.5 with 3 draft tokens"),
        ("2.9@99999999999", "1 to 64 draft tokens, like 2.9@3"),
        ("2.9@0", "1 to 64 draft tokens"),
        ("2.9@-3", "1 to 64 draft tokens"),
        ("nan@3", "1 to 64 draft tokens"),
        ("inf@3", "1 to 64 draft tokens"),
        ("registry:nobody/nothing", "registry:nobody/nothing: .*not in the registry"),
    ],
)
def test_what_is_no_curve_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_accept(name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("accept_length: many", "accept_length = 'many'"),
        ("[1, 2]", "holds no mapping"),
        ("{", "not valid YAML: line 1"),
        ("accept_length: [1\n  x: {", "not valid YAML: line 2"),
        ("accept_length: [1.9, 1.5]", "each draft token adds between 0 and 1"),
        ("accept_length: [1.2, 1.9]", r"draft token 2 adds 0\.700, the one before it 0\.200"),
        ("accept_length: []", r"accept_length = \[\]"),
        ("accept_length: [.nan]", "no finite number"),
        ("accept_length: [.inf]", "no finite number"),
        ("accept_length: [true]", r"accept_length\.0 = True"),
        ("accept_length: '123'", "accept_length = '123'"),
        ("accept_length: [1.5]\nerror: -3", "error = -3"),
        ("accept_length: [1.5]\nerror: .nan", "no finite number"),
        ("accept_length: [1.5]\nerrors: 0.1", r"unknown key 'errors' \(did you mean 'error'\?\)"),
        ("error: 0.1", "'accept_length' is missing"),
    ],
)
def test_what_is_no_file_of_one_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        load_accept(str(path), "--ngram-accept")
    assert str(caught.value).startswith(f"--ngram-accept {path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", '{"accept_length": [NaN]}', '{"accept_length": [1.5], "error": Infinity}'])
def test_what_is_no_json_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"bad\.json: not JSON: line 1"):
        load_accept(str(path))


def test_small_numbers_as_json_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"accept_length": [1.5], "error": 5e-05}')
    assert load_accept(str(path)).error == 5e-05


def test_one_share_is_a_drafter_of_one_token() -> None:
    assert load_accept("0.8").lengths == (1.8,)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 3))
def test_shifted_curves_stay_curves(chances: list[float], factor: float) -> None:
    reached, lengths, total = 1.0, [], 1.0
    for chance in chances:
        reached *= chance
        total += reached
        lengths.append(total)
    curve = AcceptCurve("x", tuple(lengths), 0.1)
    shifted = curve.shifted(factor)
    for k in range(len(chances) + 1):
        if factor >= 1:
            assert shifted.length(k) >= curve.length(k) - 1e-9
        else:
            assert shifted.length(k) <= curve.length(k) + 1e-9
    assert curve.shifted(1.0).lengths == pytest.approx(curve.lengths)


def test_published_accept_lengths_of_a_drafter() -> None:
    curve = load_accept("registry:lightseekorg/kimi-k2.5-eagle3-mla")
    assert 2.8 < curve.length(3) < 3.1
    assert curve.error >= 0.05
    code = load_accept("registry:AQ-MedAI/Kimi-K2-Instruct-eagle3:code")
    assert code.length(3) == pytest.approx(3.372)
    assert code.error == 0.15


def test_a_drafter_without_a_published_length_is_refused() -> None:
    with pytest.raises(UserError, match=r"found 0 at 0 \(classes: code, maths\)"):
        load_accept("registry:AQ-MedAI/Kimi-K2-Instruct-eagle3:cooking")
    with pytest.raises(UserError, match="not in the registry"):
        load_accept("registry:nobody/nothing")

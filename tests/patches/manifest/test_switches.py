import math

import pytest
from patch_rows.made import row

from k25serve.patches.manifest.switches import SwitchError, choose, read_switches


def chosen(switches, rows=None, version="0.5.23", device="cuda"):
    found = choose(rows or (row(),), switches, version, device)
    return {item.row.name: dict(item.options) for item in found}


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        (None, {"limit": 8, "share": 0.5}),
        (True, {"limit": 8, "share": 0.5}),
        ({"limit": 2}, {"limit": 2, "share": 0.5}),
        ({"share": 1}, {"limit": 8, "share": 1.0}),
    ],
)
def test_on_with_every_option(switch, expected):
    assert chosen({} if switch is None else {"steps": switch}) == {"steps": expected}


def test_off():
    assert chosen({"steps": False}) == {}
    assert chosen({}, (row(default=False),)) == {}
    assert set(chosen({"steps": True}, (row(default=False, lossy=True),))) == {"steps"}


def test_a_lossy_row_cant_be_on_by_default():
    with pytest.raises(ValueError, match="row steps: a lossy patch is off by default"):
        row(lossy=True)


@pytest.mark.parametrize(("version", "device"), [("0.5.17", "cuda"), ("0.5.23", "cpu")])
def test_where_it_does_not_apply_a_default_is_left_out_and_a_wish_refused(version, device):
    only_cuda = (row(devices=("cuda",)),)
    assert chosen({}, only_cuda, version, device) == {}
    assert chosen({"steps": False}, only_cuda, version, device) == {}
    with pytest.raises(SwitchError, match=r"patches\.steps: it (applies|is written) .*; remove it from the profile"):
        chosen({"steps": True}, only_cuda, version, device)


def test_a_required_row():
    required = (row(required=True),)
    with pytest.raises(SwitchError, match=r"patches\.steps can't be switched off"):
        chosen({"steps": False}, required)
    with pytest.raises(SwitchError, match=r"patches\.steps: it is written for SGLang 0\.5\.23, found 0\.5\.99"):
        chosen({}, required, "0.5.99")


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"stepz": True}, r"patches\.stepz: no such patch; there are steps"),
        ({"steps": "on"}, r"patches\.steps is 'on', expected true, false or its options"),
        ({"steps": None}, r"patches\.steps is None, expected"),
        ({"steps": {"limits": 1}}, r"patches\.steps\.limits: no such option; there are limit, share"),
        ({"steps": {"limit": 1.5}}, r"patches\.steps\.limit is 1\.5, expected a finite int: most steps"),
        ({"steps": {"limit": True}}, r"patches\.steps\.limit is True"),
        ({"steps": {"share": math.nan}}, r"patches\.steps\.share is nan, expected a finite float"),
        ({"steps": {"share": "x"}}, r"patches\.steps\.share is 'x'"),
    ],
)
def test_mistakes_are_one_line_with_the_remedy(switches, message):
    with pytest.raises(SwitchError, match=message):
        chosen(switches)


def test_options_of_a_row_without_any():
    with pytest.raises(SwitchError, match="no such option; it has none; write true"):
        chosen({"steps": {"a": 1}}, (row(options=()),))


@pytest.mark.parametrize(("text", "value"), [("", {}), ("{}", {}), ('{"a": false}', {"a": False})])
def test_the_variable(text, value):
    assert read_switches(text) == value


@pytest.mark.parametrize("text", ["mla_verify=off", "[1]", "3", "{"])
def test_a_bad_variable(text):
    with pytest.raises(SwitchError, match=r"K25SERVE_PATCHES is .*write"):
        read_switches(text)

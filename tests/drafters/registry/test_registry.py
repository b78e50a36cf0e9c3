"""The registry: complete, consistent, and K2.5's native drafters before the one that needs an adapter."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from k25serve.drafters.adapters import ADAPTERS
from k25serve.drafters.check.aux_layers import sglang_layers, trained_layers
from k25serve.drafters.checkpoint import RegistryError
from k25serve.drafters.registry import load_registry
from k25serve.drafters.registry.load import FILE
from k25serve.drafters.registry.tables import entry_text, list_table

REGISTRY = load_registry()


def rendered(renderable: object) -> str:
    page = io.StringIO()
    Console(width=240, file=page).print(renderable)
    return page.getvalue()


def test_every_target_has_drafters() -> None:
    assert {target: len(REGISTRY.ranked(target)) for target in REGISTRY.first} == {
        "K2": 1,
        "K2-Thinking": 1,
        "K2.5": 9,
        "K2.6": 7,
    }


def test_native_first_for_k25() -> None:
    ranked = REGISTRY.ranked("K2.5")
    assert ranked[0].trained_for == "K2.5"
    borrowed = [entry for entry in ranked if entry.trained_for != "K2.5"]
    assert [entry.repo for entry in borrowed] == ["AQ-MedAI/Kimi-K2-Instruct-eagle3"]
    assert "fallback only" in borrowed[0].adapter_costs
    native = [entry for entry in ranked if entry.trained_for == "K2.5" and entry.algorithm == "eagle3"]
    assert ranked.index(borrowed[0]) > max(ranked.index(entry) for entry in native)


def test_a_borrowed_drafter_names_its_adapter() -> None:
    for target in REGISTRY.first:
        for entry in REGISTRY.ranked(target):
            assert entry.trained_for == target or (entry.adapter in ADAPTERS and entry.adapter_costs)


def test_conventions_agree_with_what_sglang_takes() -> None:
    for entry in REGISTRY.drafters:
        if entry.aux is not None:
            physical = trained_layers(entry.aux.ids, entry.aux.convention)
            assert physical == sglang_layers(entry.aux.ids) == [2, 30, 58]


def test_found_with_or_without_owner() -> None:
    assert REGISTRY.get("kimi-k25-eagle3").repo == "AQ-MedAI/Kimi-K25-eagle3"
    assert REGISTRY.get("lightseekorg/kimi-k2.6-eagle3-mla").trained_for == "K2.6"
    with pytest.raises(RegistryError, match="several match; did you mean"):
        REGISTRY.get("kimi-k2.6-eagle3-mla")
    with pytest.raises(RegistryError, match=r"not in the registry; did you mean .*AQ-MedAI/Kimi-K25-eagle3"):
        REGISTRY.get("AQ-MedAI/Kimi-K25-eagle")


def test_published_acceptance_is_averaged_by_class() -> None:
    expected = REGISTRY.get("AQ-MedAI/Kimi-K2-Instruct-eagle3").expected()
    assert expected == {"code": 3.372, "maths": 3.328}
    assert REGISTRY.get("k-l-lambda/Kimi-K2.5-Eagle3").expected() == {}


def test_show_tells_everything() -> None:
    entry = REGISTRY.get("AQ-MedAI/Kimi-K2-Instruct-eagle3")
    told = rendered(entry_text(REGISTRY, entry))
    for wanted in (*entry.flags, "3.490", "adapter kimi_k2", "[2, 30, 58], input convention", "sglang#22780"):
        assert wanted in told
    assert "hf download AQ-MedAI/Kimi-K2-Instruct-eagle3 --local-dir Kimi-K2-Instruct-eagle3" in told


def test_list_is_in_order() -> None:
    told = rendered(list_table(REGISTRY, ("K2.5",)))
    places = [told.index(f" {entry.repo} ") for entry in REGISTRY.ranked("K2.5")]
    assert places == sorted(places)
    assert "trained for K2: adapt kimi_k2" in told
    assert "?: not published" in told
    assert "no profile here serves them" in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("  K2: [AQ-MedAI/Kimi-K2-Instruct-eagle3]", "  K2: [a/b]"), "ranked but not described: a/b"),
        (("  K2-Thinking: [nvidia/Kimi-K2-Thinking-Eagle3]", "  K2-Thinking: []"), "not ranked: nvidia"),
        (("trained_for: K2-Thinking", "trained_for: K3"), "K2-Thinking"),
        (("known_from: config", "known: config"), "known_from"),
        (("drafters:", "drafters: ["), "not a registry"),
    ],
    ids=["unknown", "unranked", "target", "key", "yaml"],
)
def test_a_registry_that_is_wrong(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    text = FILE.read_text()
    assert change[0] in text
    (tmp_path / "r.yaml").write_text(text.replace(*change))
    with pytest.raises(RegistryError, match=told):
        load_registry(tmp_path / "r.yaml")

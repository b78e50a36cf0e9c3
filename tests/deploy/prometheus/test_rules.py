"""The rules as data: every name is made somewhere, every limit is used, every alert leads to its page."""

from observing.queries import OWN, metric_names, panel_expressions, recorded, rule_expressions, rules

from k25serve.server.config import load_profile, profile_names

PREFIXES = ("sglang:", "vllm:", "k25serve_gateway_", "k25serve_engine_")


def test_names_are_recorded_or_scraped() -> None:
    made = recorded() | OWN
    for place, text in (*rule_expressions(), *panel_expressions()):
        for name in metric_names(text):
            assert name in made or name.startswith(PREFIXES), f"{place}: nothing makes {name}"


def test_every_recorded_name_is_used() -> None:
    used = {name for place, text in (*rule_expressions(), *panel_expressions()) for name in metric_names(text)}
    assert recorded() - used == set()


def test_recorded_names_say_their_window() -> None:
    for rule in rules("recording"):
        assert ("rate5m" in rule["record"]) == ("[5m]" in rule["expr"] or "rate5m" in rule["expr"]), rule["record"]


def test_alerts_are_whole() -> None:
    alerts = rules("alerts")
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"RUNBOOK.md#{rule['alert'].lower()}"


def test_the_engine_may_be_away_for_a_load() -> None:
    (patience,) = (rule["for"] for rule in rules("alerts") if rule["alert"] == "K25EngineNotBack")
    longest = max(load_profile(name, need_models=False).engine.ready_timeout_s for name in profile_names())
    assert int(patience.removesuffix("m")) * 60 > longest

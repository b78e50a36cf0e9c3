"""`k25serve deploy prometheus` and `deploy grafana` as users call them."""

import json
from pathlib import Path

from command_line.call import Answer, call


def deploy(*arguments: str | Path) -> Answer:
    return call("deploy", *arguments)


def test_prometheus_writes_and_prints_the_same(tmp_path: Path) -> None:
    shown = deploy("prometheus", "-p", "cpu-tiny", "--set", "gateway.port=8123")
    written = deploy("prometheus", "-p", "cpu-tiny", "--set", "gateway.port=8123", "--output", tmp_path)
    assert (shown.returncode, written.returncode) == (0, 0)
    paths = [Path(line) for line in written.stdout.splitlines()]
    assert len(paths) == 4
    assert shown.stdout == "".join(f"### {path.relative_to(tmp_path)}\n{path.read_text()}\n" for path in paths)
    assert deploy("prometheus", "-p", "cpu-tiny", "--output", tmp_path).returncode == 0, "what we made we may replace"


def test_prometheus_keeps_what_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    answer = deploy("prometheus", "-p", "cpu-tiny", "--output", tmp_path)
    assert answer.returncode == 2
    assert "was not made by this command and would be lost" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["prometheus.yml"]
    assert (tmp_path / "prometheus.yml").read_text() == "global: {}\n"


def test_grafana_writes_what_it_says(tmp_path: Path) -> None:
    answer = deploy("grafana", "--output", tmp_path, "--prometheus", "http://10.0.0.1:9090")
    assert answer.returncode == 0, answer.stderr
    files, _, advice = answer.stdout.partition("\n\n")
    assert f"GF_PATHS_PROVISIONING={tmp_path / 'provisioning'}" in advice
    for line in files.splitlines():
        text = Path(line).read_text()
        assert json.loads(text)["uid"].startswith("k25serve-") if line.endswith(".json") else text


def test_nothing_but_one_line_for_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, told in (("file", str(tmp_path / "file")), ("two\nlines", r"two\nlines': holds a character")):
        answer = deploy("grafana", "--output", tmp_path / name)
        assert answer.returncode == 2
        assert len(answer.stderr.splitlines()) == 1
        assert told in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

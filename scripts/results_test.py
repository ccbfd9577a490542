"""scripts/results.py creates the page and reports directories without results."""

import json
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).with_name("results.py")
STORED = Path(__file__).resolve().parents[1] / "bench" / "results" / "hostile"


def make(*arguments):
    return subprocess.run([sys.executable, RESULTS, *map(str, arguments)], capture_output=True, text=True)


def test_the_page_is_created_from_stored_results(tmp_path):
    (tmp_path / "none").mkdir()
    done = make("-o", tmp_path / "page.md", "--images", tmp_path / "seen" / "here", STORED, tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "results: none has no finished result of nf train\n"
    text = (tmp_path / "page.md").read_text()
    assert "](seen/here/results_hostile.svg)" in text
    assert "- g_binary does not pay off: no run reached the target" in text
    assert (tmp_path / "seen" / "here" / "results_hostile.svg").exists()


def test_missing_and_malformed_results_are_reported(tmp_path):
    done = make("-o", tmp_path / "page.md", tmp_path)
    assert (done.returncode, done.stderr) == (1, "results: none of the folders has results of nf train\n")
    (tmp_path / "result.json").write_text(json.dumps({"finished": True})[:-3])
    done = make("-o", tmp_path / "page.md", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"results: {tmp_path}/result.json: ")
    assert not (tmp_path / "page.md").exists()

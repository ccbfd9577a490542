"""Files are replaced as a whole, or left as they were."""

import os
import stat

import pytest
from neuron_fabric.support import files
from neuron_fabric.support.files import atomic_file, write_atomic


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    file = tmp_path / "file"
    write_atomic(file, "before")
    write_atomic(file, b"after \xff")
    assert file.read_bytes() == b"after \xff"
    assert list(tmp_path.iterdir()) == [file]


def test_what_fails_half_way_leaves_the_file_of_before(tmp_path):
    file = tmp_path / "file"
    write_atomic(file, "before")
    with pytest.raises(ZeroDivisionError), atomic_file(file) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_atomic(tmp_path / "nowhere" / "file", "text")


def test_a_link_at_a_name_that_could_be_guessed_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for guess in (f"file.{os.getpid()}.part", "file.part"):
        (tmp_path / guess).symlink_to(victim)
    write_atomic(tmp_path / "file", "text")
    assert victim.read_text() == "mine"
    assert (tmp_path / "file").read_text() == "text"


def test_the_name_of_a_part_is_another_one_each_time(tmp_path):
    names = set()
    for _ in range(20):
        with atomic_file(tmp_path / "file") as part:
            names.add(part.name)
            assert part.name.startswith("file.") and part.name.endswith(".part")
            assert str(os.getpid()) not in part.name.split(".")
    assert len(names) == 20


@pytest.mark.parametrize("is_link", [False, True])
def test_a_name_that_is_taken_is_left_alone(tmp_path, monkeypatch, is_link):
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "guessed")
    taken, victim = tmp_path / "file.guessed.part", tmp_path / "victim"
    if is_link:
        taken.symlink_to(victim)
    else:
        taken.write_text("mine")
    with pytest.raises(FileExistsError, match="file.guessed.part"):
        write_atomic(tmp_path / "file", "text")
    assert not victim.exists()
    assert taken.is_symlink() if is_link else taken.read_text() == "mine"


def test_others_may_read_what_they_could_read_before(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640

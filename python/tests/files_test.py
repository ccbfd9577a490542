"""Files are replaced atomically, or not changed."""

import os
import stat

import pytest
from neuron_fabric.support import files
from neuron_fabric.support.files import atomic_file, write_atomic


def test_a_file_is_replaced_and_no_temporary_file_remains(tmp_path):
    file = tmp_path / "file"
    write_atomic(file, "before")
    write_atomic(file, b"after \xff")
    assert file.read_bytes() == b"after \xff"
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_write_keeps_the_old_file(tmp_path):
    file = tmp_path / "file"
    write_atomic(file, "before")
    with pytest.raises(ZeroDivisionError), atomic_file(file) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_atomic(tmp_path / "nowhere" / "file", "text")


def test_a_link_at_a_predictable_name_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for guess in (f"file.{os.getpid()}.part", "file.part"):
        (tmp_path / guess).symlink_to(victim)
    write_atomic(tmp_path / "file", "text")
    assert victim.read_text() == "mine"
    assert (tmp_path / "file").read_text() == "text"


def test_temporary_names_are_unpredictable(tmp_path):
    names = set()
    for _ in range(20):
        with atomic_file(tmp_path / "file") as part:
            names.add(part.name)
            assert part.name.startswith("file.") and part.name.endswith(".part")
            assert str(os.getpid()) not in part.name.split(".")
    assert len(names) == 20


@pytest.mark.parametrize("is_link", [False, True])
def test_an_existing_temporary_file_is_not_touched(tmp_path, monkeypatch, is_link):
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


def test_file_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640

"""Files are replaced as a whole, or left as they were."""

import pytest
from neuron_fabric.files import whole_file, write_whole


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    file = tmp_path / "file"
    write_whole(file, "before")
    write_whole(file, b"after \xff")
    assert file.read_bytes() == b"after \xff"
    assert list(tmp_path.iterdir()) == [file]


def test_what_fails_half_way_leaves_the_file_of_before(tmp_path):
    file = tmp_path / "file"
    write_whole(file, "before")
    with pytest.raises(ZeroDivisionError), whole_file(file) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_whole(tmp_path / "nowhere" / "file", "text")

"""What a file of a web server is called, and whether that tells what it is."""

from __future__ import annotations

import pytest

from storage_initializer.backends.file_name import FileName, file_name
from storage_initializer.errors import UsageError

HOST = "https://models.example.com"


@pytest.mark.parametrize(
    ("address", "disposition", "name"),
    [
        ("/bert/model.mar", "", "model.mar"),
        ("/weights.bin?ref=model.zip", "", "weights.bin"),
        ("/download?path=/2021/model.zip", "", "model.zip"),
        ("/download?v=1.2&host=example.com&file=bert.tar.gz", "", "bert.tar.gz"),
        ("/get.php?file=C%3A%5Cmodels%5Cbert.mar", "", "bert.mar"),
        ("/?model.zip=1&path=model.ONNX", "", "model.ONNX"),
        ("/download/", 'attachment; filename="model.zip"', "model.zip"),
        ("/x.bin", "attachment; filename=../../etc/bert.mar", "bert.mar"),
        ("/x", "attachment; filename*=UTF-8''b%C3%A9rt.mar", "bért.mar"),
        ("/50%25.bin", "", "50%.bin"),
        ("/50%25", "attachment; filename=a%20b.zip", "a%20b.zip"),
        ("/a%2Fb.bin", "", "b.bin"),
        ("/download", "attachment; filename=..", None),
    ],
)
def test_a_name_that_tells_a_type_is_taken_from_the_server_the_address_or_its_query(
    address: str, disposition: str, name: str | None
) -> None:
    expected = FileName(name, typed=True) if name else FileName("download", typed=False)

    assert file_name(HOST + address, disposition) == expected


@pytest.mark.parametrize(
    ("address", "disposition", "name"),
    [
        ("/models/42", "", "42"),
        ("/models/bert-1.0", "", "bert-1.0"),
        ("/models/bert.v2", "", "bert.v2"),
        ("/get.php?id=7", "", "get.php"),
        ("/models/bert/", "", "bert"),
        ("/models/bert.zip/", "attachment; filename=bert", "bert.zip"),
        ("/?id=7", "", "model"),
        ("", "attachment; filename=bert", "bert"),
        ("/a%00b?id=7", "", "model"),
    ],
)
def test_what_is_in_the_file_decides_where_no_name_tells(address: str, disposition: str, name: str) -> None:
    assert file_name(HOST + address, disposition) == FileName(name, typed=name.endswith(".zip"))


@pytest.mark.parametrize("address", ["", "/", "/%2e%2e", "/a%00b"])
def test_an_address_without_a_name_is_none_of_a_file(address: str) -> None:
    with pytest.raises(UsageError, match="the address has no file name; give the address of a file"):
        file_name(HOST + address, "")

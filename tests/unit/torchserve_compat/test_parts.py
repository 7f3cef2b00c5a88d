"""A request's body and query, cut into the parts that TorchServe would hand over."""

from __future__ import annotations

import contextlib
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_FORM_PARTS
from torchserve_compat.frames import RequestPart
from torchserve_compat.server.parts import split

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
NAMES = st.text(st.characters(codec="ascii", exclude_characters='"\\\r\n', min_codepoint=32), min_size=1)


def multipart(*parts: tuple[str, str | None, bytes]) -> bytes:
    """A body with parts of a name, a type where it is a file, and their content."""
    lines = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"'.encode()
        + (f'; filename="f"\r\nContent-Type: {kind}'.encode() if kind else b"")
        + b"\r\n\r\n"
        + content
        for name, kind, content in parts
    ]
    return b"\r\n".join([*lines, b"--b--\r\n"])


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"&".join([b"a=1"] * (MAX_FORM_PARTS + 1)), FORM),
        (multipart(*[("a", None, b"1")] * (MAX_FORM_PARTS + 1)), MULTIPART),
    ],
    ids=["urlencoded", "multipart"],
)
def test_a_form_of_more_parts_than_are_served_is_refused(body: bytes, content_type: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The form has more than {MAX_FORM_PARTS} parts"):
        split(body, content_type)


def test_a_form_may_have_many_parts() -> None:
    assert len(split(b"&".join([b"a=1"] * MAX_FORM_PARTS), FORM)) == MAX_FORM_PARTS
    assert len(split(multipart(*[("a", None, b"1")] * MAX_FORM_PARTS), MULTIPART)) == MAX_FORM_PARTS


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"\xff", "image/jpeg", "image/jpeg"),
        (b"", "", ""),
        (b"{}", "application/json; charset=utf-8", "application/json"),
        (b'{"instances": [1, "a=b&c"]}', FORM, FORM),  # curl sends this type with any --data
    ],
)
def test_any_other_body_is_one_part_of_its_type(body: bytes, content_type: str, kind: str) -> None:
    assert split(body, content_type) == [RequestPart("body", kind, body)]


@pytest.mark.parametrize("content_type", [FORM, f"{FORM}; charset=iso-8859-1"])
@given(fields=st.dictionaries(st.text(min_size=1), st.binary(), min_size=1))
def test_a_form_is_a_part_for_each_field_with_its_bytes(content_type: str, fields: dict[str, bytes]) -> None:
    assert split(urlencode(fields).encode(), content_type) == [
        RequestPart(name, "", value) for name, value in fields.items()
    ]


@pytest.mark.parametrize("body", [b"a=%", b"a=%4", b"a=%zz", b"%=1", b"a=%2\xb2"])
def test_a_form_with_broken_escapes_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=f"The form has a % at byte {body.index(b'%')} that begins no escape"):
        split(body, FORM)


def test_a_multipart_body_is_a_part_for_each_field_and_file() -> None:
    body = multipart(("k", None, b"5"), ("data", "image/jpeg", b"\xff\r\n--\x00"), ("k", None, b"6"))

    assert split(body, MULTIPART) == [
        RequestPart("k", "", b"5"),
        RequestPart("data", "image/jpeg", b"\xff\r\n--\x00"),
        RequestPart("k", "", b"6"),
    ]


def test_the_type_of_a_file_is_read_without_its_parameters() -> None:
    body = multipart(("data", "application/json; charset=UTF-8", b"{}"))

    assert split(body, MULTIPART) == [RequestPart("data", "application/json", b"{}")]


@pytest.mark.parametrize("preamble", [b"", b"This is for old readers.\r\n--a\r\nsay --b\n"])
@pytest.mark.parametrize("epilogue", [b"", b"and this too"])
def test_what_stands_around_a_multipart_body_is_for_nobody(preamble: bytes, epilogue: bytes) -> None:
    """RFC 2046, 5.1.1."""
    body = preamble + b"\r\n" + multipart(("k", None, b"5\r\n"), ("k", None, b"6")) + epilogue

    assert split(body, MULTIPART) == [RequestPart("k", "", b"5\r\n"), RequestPart("k", "", b"6")]


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (b"", "multipart/form-data", "names no boundary"),
        (b"no boundary", MULTIPART, "cannot be read"),
        (multipart(("a", None, b"1"))[:-6], MULTIPART, "ends before its last boundary"),
        (b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--\r\n", MULTIPART, "has no name"),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(body: bytes, content_type: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        split(body, content_type)


@given(
    parts=st.lists(
        st.tuples(NAMES, st.sampled_from([None, "image/jpeg"]), st.binary().filter(lambda c: b"--b" not in c))
    )
)
def test_every_part_comes_through(parts: list[tuple[str, str | None, bytes]]) -> None:
    if not parts:
        return
    assert split(multipart(*parts), MULTIPART) == [
        RequestPart(name, kind or "", content) for name, kind, content in parts
    ]


@given(body=st.binary(), content_type=st.sampled_from([MULTIPART, FORM, ""]))
def test_no_body_breaks_it(body: bytes, content_type: str) -> None:
    with contextlib.suppress(InvalidRequest):
        assert split(body, content_type)

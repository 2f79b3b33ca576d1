from __future__ import annotations

from flopcast.report.page import listed, table


def test_columns_of_words_are_set_to_the_left() -> None:
    page = table(("kernel", "time"), [("__amd_rocclr_copy", "1.5"), ("", "–"), ("a<b>", "2")])
    assert '<th scope="col" class="text">kernel</th><th scope="col">time</th>' in page
    assert '<td class="text">__amd_rocclr_copy</td><td>1.5</td>' in page
    assert '<td class="text">a&lt;b&gt;</td>' in page


def test_a_list_has_an_entry_for_each_line() -> None:
    assert listed(["a & b", "c"]) == "<ul><li>a &amp; b</li><li>c</li></ul>"


def test_rows_that_head_others_and_columns_of_prose_are_marked() -> None:
    page = table(("class", "verdict"), [("copy", ""), ("law", "1.5 µs")], titles={0}, prose={"verdict"})
    assert page.count('<tr class="title">') == 1
    assert '<tr class="title"><td class="text">copy</td>' in page
    assert '<td class="text">1.5 µs</td>' in page

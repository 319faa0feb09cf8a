"""The check of the built documentation finds what a page would load from elsewhere."""

import runpy

import pytest

from doc_pages import ROOT

CHECK = runpy.run_path(str(ROOT / "docs" / "tools" / "check_site.py"))

ELSEWHERE = {
    "script.html": '<script src="https://cdn.example/x.js"></script>',
    "style.html": '<link rel="stylesheet" href="//cdn.example/x.css">',
    "picture.html": '<p><img alt="" src="http://example.org/x.png"></p>',
    "inline.html": "<style>@font-face { src: url(https://fonts.example/x.woff2) }</style>",
    "attribute.html": '<p style="background: url(https://example.org/x.png)">text</p>',
    "set.html": '<img srcset="https://example.org/x.png 2x" src="x.png">',
    "diagram.html": '<pre class="mermaid">graph</pre>',
    "sheet.css": '@import "https://example.org/x.css";',
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_loaded_from_elsewhere_is_found(name, tmp_path):
    (tmp_path / name).write_text(ELSEWHERE[name])
    assert len(CHECK["loads_from_elsewhere"](tmp_path)) >= 1


def test_links_and_own_files_are_fine(tmp_path):
    (tmp_path / "index.html").write_text(
        '<link rel="canonical" href="https://example.org/"><script src="own.js"></script>'
        '<a href="https://example.org">a link</a><img src="../own.png" alt="">'
    )
    (tmp_path / "own.css").write_text('p { background: url("data:image/png;base64,xx") }')
    assert CHECK["loads_from_elsewhere"](tmp_path) == []


def test_a_site_without_pages_is_no_site(tmp_path, capsys):
    assert CHECK["main"](str(tmp_path)) == 1
    assert "index.html is missing" in capsys.readouterr().err

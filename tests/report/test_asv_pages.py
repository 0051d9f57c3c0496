"""The pages of asv are linked from a report where they lie."""

from routebench.report._asv_pages import asv_pages


def test_the_pages_of_asv_are_linked_where_they_are(tmp_path, monkeypatch) -> None:
    results, page = tmp_path / "project" / "my results", tmp_path / "project" / "my results" / "report.html"
    results.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert asv_pages(results, page) is None
    beside = results.parent / "out of asv" / "index.html"
    beside.parent.mkdir()
    beside.write_text("")
    assert asv_pages(results, page) is None
    (results.parent / "asv.conf.json").write_text('{\n  // where pages go\n  "html_dir": "out of asv"\n}')
    assert asv_pages(results, page) == "../out%20of%20asv/index.html"
    (results.parent / "asv.conf.json").write_text("{ broken")
    assert asv_pages(results, page) is None
    here = elsewhere / ".asv" / "html" / "index.html"
    here.parent.mkdir(parents=True)
    here.write_text("")
    assert asv_pages(results, page) == "../../elsewhere/.asv/html/index.html"

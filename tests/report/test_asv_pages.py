"""The page of performance over commits is linked from a report where it lies."""

from routebench.report._asv_pages import asv_pages


def test_performance_over_commits_is_linked_where_it_lies(tmp_path, monkeypatch) -> None:
    results, page = tmp_path / "project" / "my results", tmp_path / "project" / "my results" / "report.html"
    project = results.parent
    results.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def made(name: str) -> None:
        (project / name).parent.mkdir(parents=True)
        (project / name).write_text("")

    assert asv_pages(results, page) is None
    made("build/site/history.html")
    assert asv_pages(results, page) == "../build/site/history.html"
    made("out of asv/index.html")
    assert asv_pages(results, page) == "../build/site/history.html"
    (project / "asv.conf.json").write_text('{\n  // where pages go\n  "html_dir": "out of asv"\n}')
    assert asv_pages(results, page) == "../out%20of%20asv/index.html"
    (project / "asv.conf.json").write_text("{ broken")
    assert asv_pages(results, page) == "../build/site/history.html"
    made(".asv/html/index.html")
    assert asv_pages(results, page) == "../.asv/html/index.html"
    assert asv_pages(tmp_path / "elsewhere" / "results", page) is None

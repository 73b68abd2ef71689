use serde_json::json;

use crate::tool_fixture::ToolFixture;

fn tree() -> ToolFixture {
    ToolFixture::holding(&[
        ("b.txt", "alpha\nbeta\ngamma\ndelta\nAlpha two\n"),
        ("a/one.rs", "fn alpha() {}\r\nfn other() {}\r\n"),
        ("a/two.rs", "nothing here\n"),
        (".hidden/x.rs", "alpha\n"),
        ("target/y.rs", "alpha\n"),
        (".gitignore", "target\n"),
    ])
}

#[tokio::test]
async fn grep_lists_lines_with_files_and_numbers() {
    let tool_fixture = tree();
    tool_fixture.write("bin", b"alpha\0");
    for (arguments, expected) in [
        (
            json!({"pattern": "alpha"}),
            "a/one.rs\n1:fn alpha() {}\n\nb.txt\n1:alpha\n",
        ),
        (json!({"pattern": "alpha$"}), "b.txt\n1:alpha\n"),
        (
            json!({"pattern": r"\{\}$"}),
            "a/one.rs\n1:fn alpha() {}\n2:fn other() {}\n",
        ),
        (
            json!({"pattern": "alpha", "case_insensitive": true, "path": "b.txt"}),
            "b.txt\n1:alpha\n5:Alpha two\n",
        ),
        (
            json!({"pattern": "alpha", "case_insensitive": true, "path": "b.txt", "context": 1}),
            "b.txt\n1:alpha\n2-beta\n--\n4-delta\n5:Alpha two\n",
        ),
        (
            json!({"pattern": "(?i)alpha", "output": "files"}),
            "a/one.rs\nb.txt\n",
        ),
        (
            json!({"pattern": "(?i)alpha", "output": "count"}),
            "a/one.rs: 1\nb.txt: 2\n",
        ),
        (
            json!({"pattern": "alpha", "glob": "*.rs"}),
            "a/one.rs\n1:fn alpha() {}\n",
        ),
        (
            json!({"pattern": "alpha", "glob": "!*.rs"}),
            "b.txt\n1:alpha\n",
        ),
        (
            json!({"pattern": "alpha", "glob": "a/**"}),
            "a/one.rs\n1:fn alpha() {}\n",
        ),
        (
            json!({"pattern": "alpha", "path": "target"}),
            "target/y.rs\n1:alpha\n",
        ),
        (
            json!({"pattern": "alpha", "glob": "*.rs", "hidden": true, "output": "files"}),
            ".hidden/x.rs\na/one.rs\n",
        ),
        (
            json!({"pattern": "alpha", "glob": ".hidden/*"}),
            ".hidden/x.rs\n1:alpha\n",
        ),
        (
            json!({"pattern": "omega"}),
            "[no match in 4 files, 1 of them binary and skipped]\n",
        ),
    ] {
        assert_eq!(
            tool_fixture.done("grep", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn grep_limits_are_reported() {
    let tool_fixture = ToolFixture::holding(&[("a", &"hit\n".repeat(10)), ("b", "hit\n")]);
    for (arguments, expected) in [
        (
            json!({"pattern": "hit", "limit": 2}),
            "a\n1:hit\n2:hit\n[there is more than 2 matching lines; narrow the search or raise `limit`]\n",
        ),
        (
            json!({"pattern": "hit", "output": "files", "limit": 1}),
            "a\n[there is more than 1 file; narrow the search or raise `limit`]\n",
        ),
        (
            json!({"pattern": "hit", "output": "count", "limit": 2}),
            "a: 10\nb: 1\n",
        ),
        (
            json!({"pattern": "hit", "path": "b", "limit": 1}),
            "b\n1:hit\n",
        ),
    ] {
        assert_eq!(
            tool_fixture.done("grep", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn long_lines_are_cut_around_the_match() {
    let line = format!("{}needle{}\n", "ä".repeat(1_000), "ö".repeat(1_000));
    let tool_fixture = ToolFixture::holding(&[("a", &line)]);
    let found = tool_fixture
        .done("grep", json!({"pattern": "needle"}))
        .await;
    assert_eq!(
        found,
        format!("a\n1:…{}needle{}…\n", "ä".repeat(100), "ö".repeat(294))
    );
    tool_fixture.write("many", format!("hit {}\n", "x".repeat(390)).repeat(1_000));
    let found = tool_fixture
        .done("grep", json!({"pattern": "hit", "limit": 2_000}))
        .await;
    assert!(found.len() < 66_000);
    assert!(found.ends_with("[there is more than fits here; narrow the search]\n"));
}

#[tokio::test]
async fn invalid_regex_error_is_that_of_the_regex_library() {
    let tool_fixture = tree();
    let said = tool_fixture
        .fails("grep", json!({"pattern": "fn (alpha"}))
        .await;
    assert!(said.contains("unclosed group"), "{said}");
    let said = tool_fixture
        .fails("grep", json!({"pattern": "a", "glob": "[x"}))
        .await;
    assert!(said.contains("unclosed character class"), "{said}");
    let said = tool_fixture
        .fails("grep", json!({"pattern": "a", "path": "c"}))
        .await;
    assert!(said.contains("there is no `c`"), "{said}");
}

#[tokio::test]
async fn text_in_utf16_is_searched() {
    let tool_fixture = ToolFixture::new();
    let wide: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain("first\nneedle\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    tool_fixture.write("wide.txt", wide);
    let found = tool_fixture
        .done("grep", json!({"pattern": "needle"}))
        .await;
    assert_eq!(found, "wide.txt\n2:needle\n");
}

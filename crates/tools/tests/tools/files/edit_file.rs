use cachalot_tools::ToolOutput;
use serde_json::json;

use crate::tool_fixture::{ToolFixture, text};

async fn edited(content: &str, old: &str, new: &str, all: bool) -> Result<String, ToolOutput> {
    let tool_fixture = ToolFixture::holding(&[("f", content)]);
    let arguments = json!({"path": "f", "old_text": old, "new_text": new, "replace_all": all});
    let output = tool_fixture.call("edit_file", arguments).await;
    if output.is_error {
        assert_eq!(tool_fixture.read("f"), content);
        Err(output)
    } else {
        Ok(tool_fixture.read("f"))
    }
}

#[tokio::test]
async fn edit_replaces_a_text_and_shows_the_place() {
    let tool_fixture =
        ToolFixture::holding(&[("a.rs", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")]);
    let arguments = json!({"path": "a.rs", "old_text": "four\n", "new_text": "4\n4.5\n"});
    let said = tool_fixture.done("edit_file", arguments).await;
    assert_eq!(
        said,
        "edited `a.rs` (1 replacement)\n     2\ttwo\n     3\tthree\n     4\t4\n     5\t4.5\n     6\tfive\n     7\tsix\n"
    );
    assert_eq!(
        tool_fixture.read("a.rs"),
        "one\ntwo\nthree\n4\n4.5\nfive\nsix\nseven\n"
    );
    let arguments = json!({"path": "a.rs", "old_text": "e", "new_text": "E", "replace_all": true});
    let said = tool_fixture.done("edit_file", arguments).await;
    assert!(
        said.starts_with("edited `a.rs` (6 replacements)\n     1\tonE\n"),
        "{said}"
    );
    assert_eq!(
        tool_fixture.read("a.rs"),
        "onE\ntwo\nthrEE\n4\n4.5\nfivE\nsix\nsEvEn\n"
    );
}

#[tokio::test]
async fn edit_can_delete_everything_or_the_end() {
    assert_eq!(
        edited("all of it", "all of it", "", false).await.unwrap(),
        ""
    );
    assert_eq!(edited("a\nb\n", "b\n", "", false).await.unwrap(), "a\n");
    assert_eq!(edited("a\nb", "b", "c\nd", false).await.unwrap(), "a\nc\nd");
}

#[tokio::test]
async fn line_endings_are_kept() {
    let windows = "one\r\ntwo\r\nthree\r\n";
    assert_eq!(
        edited(windows, "one\ntwo", "1\n2\n2.5", false)
            .await
            .unwrap(),
        "1\r\n2\r\n2.5\r\nthree\r\n"
    );
    assert_eq!(
        edited(windows, "two", "2\n2.5", false).await.unwrap(),
        "one\r\n2\r\n2.5\r\nthree\r\n"
    );
    assert_eq!(
        edited(windows, "one\r\ntwo", "1\r\n2", false)
            .await
            .unwrap(),
        "1\r\n2\r\nthree\r\n"
    );
    assert_eq!(
        edited("a\nb\n", "a\r\nb", "x\r\ny", false).await.unwrap(),
        "x\ny\n"
    );
    // Mixed: only what is replaced is touched.
    assert_eq!(
        edited("a\r\nb\nc\n", "b", "x\ny", false).await.unwrap(),
        "a\r\nx\ny\nc\n"
    );
}

#[tokio::test]
async fn ambiguous_old_text_is_refused_with_its_lines() {
    let said = edited("x = 1\ny = 2\nx = 1\n", "x = 1", "x = 2", false).await;
    assert_eq!(
        text(&said.unwrap_err()),
        "old_text occurs 2 times in `f`, in lines 1, 3; add lines around it to make it unique, or set \
         replace_all"
    );
    // Either could be meant.
    let said = text(&edited("aaa", "aa", "b", false).await.unwrap_err());
    assert!(said.contains("occurs 2 times"), "{said}");
    assert_eq!(edited("aaa", "aa", "b", true).await.unwrap(), "ba");
    let said = text(&edited("a", "a", "a", false).await.unwrap_err());
    assert!(said.contains("nothing would change"), "{said}");
}

#[tokio::test]
async fn missing_old_text_is_refused_with_the_nearest_lines() {
    let content = "fn main() {\n\tlet a = 1;\n\tlet b = 2;\n}\n";
    for (old, expected) in [
        (
            "    let a = 1;\n    let b = 2;",
            r#"lines 2-3 differ from it in whitespace only: line 2 is "\tlet a = 1;", and "    let a = 1;" is expected"#,
        ),
        (
            "let a = 1; ",
            r#"line 2 differs from it in whitespace only: line 2 is "\tlet a = 1;", and "let a = 1; " is expected"#,
        ),
        (
            "fn main() {\n\tlet a = 1;\n\tlet c = 3;",
            r#"lines 1-2 are like it, but then line 3 is "\tlet b = 2;" where "\tlet c = 3;" is expected"#,
        ),
        (
            "}\nfn",
            r#"line 4 is like it, but then the file ends there where "fn" is expected"#,
        ),
        ("     2\t\tlet a = 1;", "leave out the number and the tab"),
        (
            "entirely different",
            "nothing in it comes near; read the file again",
        ),
    ] {
        let said = text(&edited(content, old, "x", false).await.unwrap_err());
        assert!(said.starts_with("old_text is not in `f`: "), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[tokio::test]
async fn invalid_utf8_is_kept_and_binary_files_are_refused() {
    let tool_fixture = ToolFixture::new();
    tool_fixture.write("latin", b"caf\xe9 = 1\n");
    tool_fixture.write("binary", b"a\0b");
    let arguments = json!({"path": "latin", "old_text": "= 1", "new_text": "= 2"});
    tool_fixture.done("edit_file", arguments).await;
    assert_eq!(
        std::fs::read(tool_fixture.path("latin")).unwrap(),
        b"caf\xe9 = 2\n"
    );
    let arguments = json!({"path": "binary", "old_text": "a", "new_text": "b"});
    let said = tool_fixture.fails("edit_file", arguments).await;
    assert!(said.contains("no text in UTF-8"), "{said}");
    let arguments = json!({"path": "none", "old_text": "a", "new_text": "b"});
    let said = tool_fixture.fails("edit_file", arguments).await;
    assert!(said.contains("there is no `none`"), "{said}");
}

use cachalot_tools::ToolOutput;
use cachalot_tools::builtin::files::patch::{Action, Mark, Patch};
use serde_json::json;

use crate::tool_fixture::{ToolFixture, text};

fn patch(body: &str) -> serde_json::Value {
    json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch\n")})
}

const PROGRAM: &str = "class A:\n    def one(self):\n        return 1\n\nclass B:\n    def one(self):\n        return 1\n";

#[tokio::test]
async fn patch_updates_adds_moves_and_deletes_files() {
    let tool_fixture = ToolFixture::holding(&[
        ("main.py", PROGRAM),
        ("old.txt", "gone\n"),
        ("here.txt", "a\nb\nc\n"),
    ]);
    let said = tool_fixture
        .done(
            "apply_patch",
            patch(
                "*** Update File: main.py\n@@ class B:\n     def one(self):\n-        return 1\n+        return 2\n*** Add File: new/notes.txt\n+one\n+\n+three\n*** Delete File: old.txt\n*** Update File: here.txt\n*** Move to: there/now.txt\n a\n-b\n+B",
            ),
        )
        .await;
    assert_eq!(
        said,
        "updated `main.py` (+1 -1), at line 7\nadded `new/notes.txt` (3 lines)\ndeleted `old.txt`\nmoved `here.txt` to `there/now.txt` (+1 -1), at line 2\n"
    );
    assert_eq!(
        tool_fixture.read("main.py"),
        PROGRAM.replacen(
            "class B:\n    def one(self):\n        return 1",
            "class B:\n    def one(self):\n        return 2",
            1
        )
    );
    assert_eq!(tool_fixture.read("new/notes.txt"), "one\n\nthree\n");
    assert_eq!(tool_fixture.read("there/now.txt"), "a\nB\nc\n");
    assert!(!tool_fixture.is_there("old.txt") && !tool_fixture.is_there("here.txt"));
    assert_eq!(tool_fixture.tree().len(), 5, "{:?}", tool_fixture.tree());
}

async fn updated(content: &str, hunks: &str) -> Result<String, ToolOutput> {
    let tool_fixture = ToolFixture::holding(&[("f", content)]);
    let output = tool_fixture
        .call(
            "apply_patch",
            patch(&format!("*** Update File: f\n{hunks}")),
        )
        .await;
    if output.is_error {
        assert_eq!(tool_fixture.read("f"), content);
        Err(output)
    } else {
        Ok(tool_fixture.read("f"))
    }
}

#[tokio::test]
async fn hunks_are_located_by_context() {
    let numbers = "1\n2\n3\n4\n5\n";
    for (content, hunks, expected) in [
        // Context, several hunks, headers with and without text.
        (
            numbers,
            "@@\n 2\n-3\n+three\n@@\n-5\n+five",
            "1\n2\nthree\n4\nfive\n",
        ),
        (numbers, " 1\n+1.5\n 2", "1\n1.5\n2\n3\n4\n5\n"),
        // Insertion behind an anchor, near a line, and at the end.
        (numbers, "@@ 2\n+2.5", "1\n2\n2.5\n3\n4\n5\n"),
        (numbers, "@@ -2,0 +3 @@\n+2.5", "1\n2\n2.5\n3\n4\n5\n"),
        (numbers, "+6", "1\n2\n3\n4\n5\n6\n"),
        ("", "+6", "6\n"),
        // Anchors lead inwards; an anchor may be repeated as the first line.
        (
            PROGRAM,
            "@@ class B:\n@@     def one(self):\n-        return 1\n+        return 9",
            &PROGRAM.replacen(
                "1\n\nclass B:\n    def one(self):\n        return 1",
                "1\n\nclass B:\n    def one(self):\n        return 9",
                1,
            ),
        ),
        ("a\nb\na\nb\n", "@@ b\n a\n-b\n+c", "a\nb\na\nc\n"),
        ("a\nb\nb\n", "@@ a\n a\n-b\n+c", "a\nc\nb\n"),
        // The line that a header of a unified diff names decides.
        (
            "x\ny\nx\ny\nx\n",
            "@@ -3,1 +3,1 @@ fn\n-x\n+z",
            "x\ny\nz\ny\nx\n",
        ),
        // The end of the file decides.
        ("x\ny\nx\n", "-x\n+z\n*** End of File", "x\ny\nz\n"),
        // Whitespace is forgiven, and the file's own kept.
        ("\tone  \n\ttwo\n", " one\n-two\n+\t2", "\tone  \n\t2\n"),
        // An empty line without its mark.
        ("a\n\nb\n", " a\n\n-b\n+c", "a\n\nc\n"),
        // Line endings, and the end without one.
        ("a\r\nb\r\n", " a\n-b\n+c\n+d", "a\r\nc\r\nd\r\n"),
        ("a\nb", " a\n b\n+c", "a\nb\nc"),
        ("a\nb", " a\n-b", "a"),
        ("a\n", "-a", ""),
    ] {
        assert_eq!(
            updated(content, hunks).await.as_deref(),
            Ok(expected),
            "{hunks}"
        );
    }
}

#[tokio::test]
async fn mismatched_hunk_error_names_hunk_and_reason() {
    for (content, hunks, expected) in [
        (
            "a\nb\n",
            "-c\n+d",
            "hunk 1 (line 3 of the patch) does not fit: its lines are not in the file, and nothing comes near",
        ),
        (
            "a\nb\nc\n",
            " a\n-x\n+d",
            r#"line 1 is like it, but then line 2 is "b" where "x" is expected"#,
        ),
        (
            "x\ny\nx\n",
            "-x\n+z",
            "its lines occur 2 times, at lines 1, 3; add context, or name the preceding line with `@@`",
        ),
        (
            "a\nb\n",
            "@@ class X\n-b\n+c",
            "there is no line `class X`; what follows `@@` must be a whole line",
        ),
        (
            "a\nb\n",
            "@@\n-b\n+c\n@@\n-a\n+d",
            "hunk 2 (line 6 of the patch) does not fit: its lines are not in the file behind line 2, where it must lie: line 1",
        ),
    ] {
        let said = text(&updated(content, hunks).await.unwrap_err());
        assert!(
            said.starts_with("nothing was changed: `f`: hunk "),
            "{said}"
        );
        assert!(said.contains(expected), "{said}");
    }
}

#[tokio::test]
async fn patch_is_applied_completely_or_not_at_all() {
    let tool_fixture = ToolFixture::holding(&[("a", "a\n"), ("b", "b\n"), ("directory/x", "x\n")]);
    let before = tool_fixture.tree();
    let fine = "*** Update File: a\n-a\n+A\n*** Add File: new/file\n+x\n";
    for (rest, expected) in [
        ("*** Update File: b\n-z\n+B", "`b`: hunk 1"),
        ("*** Add File: b\n+x", "`b` exists already"),
        ("*** Delete File: c", "there is no `c`; did you mean `a`?"),
        ("*** Delete File: directory", "`directory` is a directory"),
        (
            "*** Update File: b\n*** Move to: a\n-b\n+B",
            "`b` cannot be moved: `a` exists already",
        ),
        ("*** Delete File: ../b", "outside the workspace"),
        (
            "*** Delete File: b\n*** Update File: b\n-b\n+c",
            "`b` is deleted or moved away earlier",
        ),
        (
            "*** Add File: new/file/below\n+x",
            "`new/file/below` cannot be: `new/file` is a file in this patch",
        ),
    ] {
        let said = tool_fixture
            .fails("apply_patch", patch(&format!("{fine}{rest}")))
            .await;
        assert!(said.starts_with("nothing was changed: "), "{said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(tool_fixture.tree(), before, "{rest}");
    }
}

#[tokio::test]
async fn sections_apply_to_the_result_of_earlier_ones() {
    let tool_fixture = ToolFixture::holding(&[("a", "1\n2\n"), ("b", "b\n")]);
    tool_fixture
        .done(
            "apply_patch",
            patch("*** Update File: a\n-1\n+one\n*** Update File: ./a\n one\n-2\n+two\n*** Update File: a\n*** Move to: c\n*** Add File: a\n+new\n*** Delete File: b\n*** Add File: b\n+other\n*** Add File: x\n+x\n*** Delete File: x"),
        )
        .await;
    assert_eq!(tool_fixture.read("a"), "new\n");
    assert_eq!(tool_fixture.read("b"), "other\n");
    assert_eq!(tool_fixture.read("c"), "one\ntwo\n");
    assert!(!tool_fixture.is_there("x"));
}

#[test]
fn malformed_patch_error_names_line_and_expectation() {
    for (text, line, expected) in [
        ("", 1, "a patch begins with `*** Begin Patch`"),
        ("*** Update File: a", 1, "a patch begins with"),
        ("--- a/x\n+++ b/x\n", 1, "this is a unified diff"),
        ("*** Begin Patch\n*** End Patch", 2, "changes no file"),
        (
            "*** Begin Patch\n*** Delete File: a\n",
            3,
            "ends without `*** End Patch`",
        ),
        (
            "*** Begin Patch\n*** Rename File: a\n*** End Patch",
            2,
            "expected `*** Add File: path`",
        ),
        (
            "*** Begin Patch\n*** Add File:\n*** End Patch",
            2,
            "needs a path",
        ),
        (
            "*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch",
            4,
            "begins with `+`, found `y`",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** End Patch",
            2,
            "changes nothing",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n x\n*** End Patch",
            2,
            "changes nothing",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n-x\ny\n*** End Patch",
            5,
            "begins with ` `, `-` or `+`, found `y`",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch",
            4,
            "a hunk needs lines",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n-x\n\\ No newline at end of file\n*** End Patch",
            4,
            "leave out",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** Move to:\n*** End Patch",
            3,
            "needs a path",
        ),
        (
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore",
            4,
            "there is text behind",
        ),
    ] {
        let wrong = Patch::parse(text).unwrap_err();
        assert_eq!(wrong.line, line, "{text}: {wrong}");
        assert!(wrong.reason.contains(expected), "{wrong}");
    }
}

#[test]
fn text_around_a_patch_is_ignored() {
    let text = "\n```\n*** Begin Patch\r\n\r\n*** Update File:  a b.txt \r\n@@ fn x() @@\r\n-x\r\n+y\r\n\r\n\r\n*** Add File: c\n\n*** End Patch\n```\n\n";
    let patch = Patch::parse(text).unwrap();
    assert_eq!(patch.sections.len(), 2);
    assert_eq!(
        (patch.sections[0].line, patch.sections[0].path.as_str()),
        (5, "a b.txt")
    );
    let Action::Update {
        move_to: None,
        hunks,
    } = &patch.sections[0].action
    else {
        panic!("{patch:?}");
    };
    assert_eq!(hunks.len(), 1);
    assert_eq!(hunks[0].anchors, ["fn x()"]);
    let lines = [
        (Mark::Removed, "x".to_owned()),
        (Mark::Added, "y".to_owned()),
    ];
    assert_eq!(hunks[0].lines, lines);
    assert_eq!(patch.sections[1].action, Action::Add(Vec::new()));
}

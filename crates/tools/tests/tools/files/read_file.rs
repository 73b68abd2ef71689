use std::fmt::Write as _;

use cachalot_model::{Block, ImageSource};
use serde_json::json;

use crate::tool_fixture::ToolFixture;

fn lines(count: usize) -> String {
    (1..=count).fold(String::new(), |mut text, number| {
        writeln!(text, "line {number}").unwrap();
        text
    })
}

#[tokio::test]
async fn lines_are_numbered() {
    let tool_fixture = ToolFixture::holding(&[("a.txt", "one\n\n\tthree\nlast")]);
    assert_eq!(
        tool_fixture
            .done("read_file", json!({"path": "a.txt"}))
            .await,
        "     1\tone\n     2\t\n     3\t\tthree\n     4\tlast\n"
    );
}

#[tokio::test]
async fn range_reports_the_lines_around_it() {
    let tool_fixture = ToolFixture::holding(&[("a.txt", &lines(30))]);
    let read = async |arguments| tool_fixture.done("read_file", arguments).await;
    assert_eq!(
        read(json!({"path": "a.txt", "offset": 10, "limit": 2})).await,
        "    10\tline 10\n    11\tline 11\n[lines 10-11 of 30; continue with offset 12]\n"
    );
    assert_eq!(
        read(json!({"path": "a.txt", "offset": 30})).await,
        "    30\tline 30\n[lines 30-30 of 30]\n"
    );
    let said = tool_fixture
        .fails("read_file", json!({"path": "a.txt", "offset": 31}))
        .await;
    assert_eq!(said, "there is no line 31 in `a.txt`: it has 30 lines");
}

#[tokio::test]
async fn long_files_and_lines_are_truncated_with_a_notice() {
    let tool_fixture = ToolFixture::holding(&[
        ("many.txt", &lines(2_500)),
        ("wide.txt", &format!("{}\nshort\n", "ä".repeat(3_000))),
        ("fat.txt", &format!("{}\n", "x".repeat(1_000)).repeat(200)),
    ]);
    let many = tool_fixture
        .done("read_file", json!({"path": "many.txt"}))
        .await;
    assert!(
        many.ends_with("  2000\tline 2000\n[lines 1-2000 of 2500; continue with offset 2001]\n")
    );
    let wide = tool_fixture
        .done("read_file", json!({"path": "wide.txt"}))
        .await;
    let expected = format!(
        "     1\t{}… [cut: the line has 6,000 bytes]\n     2\tshort\n",
        "ä".repeat(2_000)
    );
    assert_eq!(wide, expected);
    let fat = tool_fixture
        .done("read_file", json!({"path": "fat.txt"}))
        .await;
    assert!(fat.len() < 66_000, "{}", fat.len());
    assert!(
        fat.ends_with("[lines 1-65 of 200; continue with offset 66]\n"),
        "{}",
        &fat[fat.len() - 80..]
    );
}

#[tokio::test]
async fn line_endings_and_encodings_are_reported() {
    let tool_fixture = ToolFixture::holding(&[
        ("windows.txt", "a\r\nb\r\n"),
        ("mixed.txt", "a\r\nb\n"),
        ("empty.txt", ""),
        ("newline.txt", "\n"),
    ]);
    tool_fixture.write("latin.txt", b"caf\xe9\n");
    tool_fixture.write("mark.txt", "\u{feff}a\n");
    let wide: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain("hällo\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    tool_fixture.write("wide.txt", wide);
    for (path, expected) in [
        (
            "windows.txt",
            "     1\ta\n     2\tb\n[all lines end with CRLF; edits keep that]\n",
        ),
        (
            "mixed.txt",
            "     1\ta\n     2\tb\n[1 line ends with CRLF]\n",
        ),
        ("empty.txt", "[the file is empty: 0 bytes]\n"),
        ("newline.txt", "     1\t\n"),
        (
            "latin.txt",
            "     1\tcaf\u{fffd}\n[some bytes are not UTF-8 and are shown as \u{fffd}]\n",
        ),
        (
            "wide.txt",
            "     1\thällo\n[the file is in UTF-16; edit_file cannot change it]\n",
        ),
    ] {
        assert_eq!(
            tool_fixture.done("read_file", json!({"path": path})).await,
            expected,
            "{path}"
        );
    }
}

#[tokio::test]
async fn images_are_shown_and_binary_files_are_named() {
    let tool_fixture = ToolFixture::new();
    tool_fixture.write("a.png", b"\x89PNG\r\n\x1a\nrest");
    tool_fixture.write("b.bin", b"ab\0cd");
    tool_fixture.write("c.pdf", b"%PDF-1.7\n...");
    tool_fixture.write("d.db", b"SQLite format 3\0...");
    let mut large = b"\xff\xd8\xff".to_vec();
    large.resize((32 << 20) + 1, 7);
    tool_fixture.write("large.jpg", large);
    let output = tool_fixture
        .call("read_file", json!({"path": "a.png"}))
        .await;
    let [Block::Text { text, .. }, Block::Image(image)] = output.content.as_slice() else {
        panic!("{output:?}");
    };
    assert_eq!(text, "image/png, 12 bytes:");
    assert_eq!(
        image.source,
        ImageSource::Inline {
            media_type: "image/png".to_owned(),
            base64: "iVBORw0KGgpyZXN0".to_owned(),
        }
    );
    for (path, what) in [
        ("b.bin", "binary data"),
        ("c.pdf", "a PDF document"),
        ("d.db", "a SQLite database"),
        ("large.jpg", "too large to be shown"),
    ] {
        let said = tool_fixture.fails("read_file", json!({"path": path})).await;
        assert!(said.contains(what), "{said}");
    }
}

#[tokio::test]
async fn missing_file_error_suggests_an_existing_one() {
    let tool_fixture = ToolFixture::holding(&[("src/main.rs", ""), ("src/library.rs", "")]);
    for (path, expected) in [
        (
            "src/mian.rs",
            "there is no `src/mian.rs`; did you mean `src/main.rs`?",
        ),
        (
            "scr/main.rs",
            "there is no `scr/main.rs`, not even `scr`; did you mean `src`?",
        ),
        (
            "src/xyz",
            "there is no `src/xyz`; `src` holds library.rs, main.rs",
        ),
        (
            "~/notes",
            "there is no `~/notes`, not even `~`; `~` is not expanded; `.` holds src",
        ),
        (
            "src",
            "`src` is a directory, not a file; list it with list_dir",
        ),
    ] {
        let said = tool_fixture.fails("read_file", json!({"path": path})).await;
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn huge_file_is_read_by_ranges() {
    let tool_fixture = ToolFixture::new();
    let line = format!("{}\n", "y".repeat(99));
    tool_fixture.write("long.log", line.repeat(340_000));
    let arguments = json!({"path": "long.log", "offset": 339_999, "limit": 1});
    let shown = tool_fixture.done("read_file", arguments.clone()).await;
    assert_eq!(
        shown,
        format!(
            "339999\t{}\n[lines 339999-339999 of 340000; continue with offset 340000]\n",
            "y".repeat(99)
        )
    );
    let (_, witness) = tool_fixture.witnessed("read_file", arguments).await;
    assert_eq!(witness.snapshot().holds().await, Ok(()));
    let found = tool_fixture
        .done("grep", json!({"pattern": "y", "output": "count"}))
        .await;
    assert_eq!(found, "long.log: 340000\n");
    tool_fixture.write("long.log", format!("{}x\n", line.repeat(340_000)));
    assert!(witness.snapshot().holds().await.is_err());
}

//! `document.text`.

use serde_json::{Value, json};

use crate::fakes::Server;
use crate::fixture::Fixture;

/// A PDF with one line of text on each page.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!(
            "<< /Type /Pages /Kids [{}] /Count {} >>",
            (0..pages.len())
                .map(|page| format!("{} 0 R ", 4 + 2 * page))
                .collect::<String>(),
            pages.len()
        ),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    for (page, text) in pages.iter().enumerate() {
        let content = format!("BT /F1 24 Tf 72 720 Td ({text}) Tj ET");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
            5 + 2 * page
        ));
        objects.push(format!(
            "<< /Length {} >>\nstream\n{content}\nendstream",
            content.len()
        ));
    }
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).bytes());
    }
    let table = out.len();
    out.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    out.extend(
        offsets
            .iter()
            .flat_map(|offset| format!("{offset:010} 00000 n \n").into_bytes()),
    );
    out.extend(
        format!(
            "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n",
            objects.len() + 1
        )
        .bytes(),
    );
    out
}

async fn text(fixture: &Fixture, path: &str) -> Value {
    let found = fixture.ok("document.text", json!({"path": path})).await;
    assert_eq!(found["success"], true);
    found
}

#[tokio::test]
async fn pdf_text_is_extracted_with_pages() {
    let fixture = Fixture::new();
    fixture.file("two.pdf", pdf(&["First page", "Second page"]));
    fixture.file("unnamed", pdf(&["Found by its content"]));
    let found = text(&fixture, "two.pdf").await;
    assert_eq!(
        (&found["format"], &found["pages"]),
        (&json!("pdf"), &json!(2))
    );
    let whole = found["text"].as_str().unwrap();
    assert!(
        whole.find("First page").unwrap() < whole.find("Second page").unwrap(),
        "{whole}"
    );
    let found = text(&fixture, "unnamed").await;
    assert_eq!(
        (&found["format"], &found["pages"]),
        (&json!("pdf"), &json!(1))
    );
}

#[tokio::test]
async fn damaged_pdf_fails_its_node_only() {
    let fixture = Fixture::new();
    let whole = pdf(&["text"]);
    fixture.file("cut.pdf", &whole[..whole.len() / 2]);
    fixture.file("none.pdf", "this is no PDF");
    fixture.file("empty.pdf", "");
    // An encoding that the reader does not know makes it panic.
    let torn = String::from_utf8(whole.clone())
        .unwrap()
        .replace("/WinAnsiEncoding", "/NoSuchEncoding1");
    fixture.file("torn.pdf", torn);
    for name in ["cut.pdf", "none.pdf", "empty.pdf", "torn.pdf"] {
        let failure = fixture.fails("document.text", json!({"path": name})).await;
        assert_eq!(failure.kind, "document_error", "{name}: {failure}");
        assert!(failure.message.contains(name), "{failure}");
    }
    fixture.file("whole.pdf", whole);
    assert_eq!(text(&fixture, "whole.pdf").await["pages"], 1);
}

#[tokio::test]
async fn malicious_pdf_fails_its_node_only() {
    let fixture = Fixture::new();
    let deep = "[".repeat(3_000_000);
    let whole = String::from_utf8(pdf(&["text"])).unwrap();
    fixture.file("deep-object.pdf", whole.replace("/WinAnsiEncoding", &deep));
    fixture.file("deep-content.pdf", pdf(&[&format!("x) Tj {deep} (y")]));
    let cycle = String::from_utf8(pdf(&["text"]))
        .unwrap()
        .replace("/Kids [4 0 R ]", "/Kids [2 0 R ]");
    fixture.file("cycle.pdf", cycle);
    for name in ["deep-object.pdf", "deep-content.pdf", "cycle.pdf"] {
        let _ = fixture.run("document.text", json!({"path": name})).await;
    }
}

#[tokio::test]
async fn html_becomes_markdown_without_scripts() {
    let fixture = Fixture::new();
    let page = "<!DOCTYPE html><html><head><title>T</title><style>p {}</style></head><body><h1>Head</h1>\
                <script>alert(1)</script><p>Some <b>bold</b> &amp; <a href=\"/x\">link</a></p><ul><li>one</li></ul></body></html>";
    fixture.file("p.html", page);
    fixture.file("unnamed", format!("  \n{page}"));
    for name in ["p.html", "unnamed"] {
        let found = text(&fixture, name).await;
        assert_eq!(found["format"], "html");
        assert!(found.get("pages").is_none());
        let markdown = found["text"].as_str().unwrap();
        assert!(
            markdown.contains("# Head")
                && markdown.contains("**bold** & [link](/x)")
                && markdown.contains("one"),
            "{markdown}"
        );
        assert!(
            !markdown.contains("alert") && !markdown.contains("p {}"),
            "{markdown}"
        );
    }
}

#[tokio::test]
async fn endlessly_nested_page_fails_its_node_only() {
    let fixture = Fixture::new();
    fixture.file("deep.html", "<div>".repeat(5_000));
    let failure = fixture
        .fails("document.text", json!({"path": "deep.html"}))
        .await;
    assert!(
        failure.kind == "document_error" && failure.message.contains("nested deeper"),
        "{failure}"
    );
    fixture.file("ok.html", format!("{}text", "<div>".repeat(1_500)));
    assert_eq!(text(&fixture, "ok.html").await["text"], "text");
}

#[tokio::test]
async fn text_documents_are_unchanged() {
    let fixture = Fixture::new();
    fixture.file("a.md", "\u{feff}# Ä\n");
    fixture.file("b.log", "line\n<html> later");
    assert_eq!(
        text(&fixture, "a.md").await,
        json!({"text": "# Ä\n", "format": "markdown", "success": true})
    );
    assert_eq!(
        text(&fixture, "b.log").await,
        json!({"text": "line\n<html> later", "format": "text", "success": true})
    );
    fixture.file("empty", "");
    assert_eq!(text(&fixture, "empty").await["text"], "");
}

#[tokio::test]
async fn unsupported_formats_are_reported() {
    let fixture = Fixture::new();
    fixture.file("x.docx", b"PK\x03\x04\xff\xff\0");
    fixture.file("x.bin", b"\0\x01\xff");
    fixture.file("latin.txt", b"caf\xe9");
    let failure = fixture
        .fails("document.text", json!({"path": "x.docx"}))
        .await;
    assert!(
        failure.kind == "document_error" && failure.message.contains("office"),
        "{failure}"
    );
    assert_eq!(
        fixture
            .fails("document.text", json!({"path": "x.bin"}))
            .await
            .kind,
        "document_error"
    );
    assert!(
        fixture
            .fails("document.text", json!({"path": "latin.txt"}))
            .await
            .message
            .contains("not UTF-8")
    );
    assert_eq!(
        fixture
            .fails("document.text", json!({"path": "absent.pdf"}))
            .await
            .kind,
        "not_found"
    );
}

#[tokio::test]
async fn documents_are_read_from_servers() {
    let page = || async { ([("content-type", "text/html")], "<h1>Served</h1>") };
    let server = Server::start(axum::Router::new().route("/a/page.html", axum::routing::get(page)));
    let fixture = Fixture::new();
    let found = text(
        &fixture,
        &format!("{}/a/page.html?version=1.pdf", server.base_url()),
    )
    .await;
    assert_eq!(
        (&found["format"], &found["text"]),
        (&json!("html"), &json!("# Served"))
    );
}

#[tokio::test]
async fn format_implied_by_the_name_is_keyed_with_file_content() {
    let fixture = Fixture::new();
    for name in ["same.md", "same.html", "elsewhere/same.MD", "same"] {
        fixture.file(name, "<p>one <b>two</b>");
    }
    let text = |path: &str| json!({"action": "document.text", "args": {"path": path}, "key_strategy": "file_content", "key_source": "path"});
    assert_eq!(
        fixture.wrapped(text("same.md")).await.1["format"],
        "markdown"
    );
    let (hit, result) = fixture.wrapped(text("same.html")).await;
    assert!(!hit && result["format"] == "html", "{result}");
    let (hit, result) = fixture.wrapped(text("same")).await;
    assert!(!hit && result["format"] == "text", "{result}");
    assert!(
        fixture.wrapped(text("elsewhere/same.MD")).await.0,
        "the same in all that matters"
    );
}

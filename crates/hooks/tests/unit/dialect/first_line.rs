//! Unit tests of `src/dialect/first_line.rs`.

use super::*;

const NO_LIMIT: FirstLine = FirstLine::MovedToBackground { limit: None };

#[test]
fn first_line_parse_recognizes_async() {
    for (stdout, expected) in [
        ("", FirstLine::Incomplete),
        (" \n", FirstLine::Incomplete),
        ("{\"asy", FirstLine::Incomplete),
        ("{\"async\":true}", NO_LIMIT),
        ("\u{feff} {\"async\": true}\r\n{\"a\": 1}", NO_LIMIT),
        (
            "{\"async\":true,\"asyncTimeout\":1500}\n",
            FirstLine::MovedToBackground {
                limit: Some(Duration::from_millis(1500)),
            },
        ),
        ("{\"async\":false}\n", FirstLine::Other),
        ("{\"async\":\"true\"}\n", FirstLine::Other),
        ("{\"decision\":\"block\"}", FirstLine::Other),
        ("{\n", FirstLine::Other),
        ("working\n{\"async\":true}", FirstLine::Other),
        (
            format!("{{\"a\": \"{}", "x".repeat(5_000)).as_str(),
            FirstLine::Other,
        ),
    ] {
        assert_eq!(FirstLine::parse(stdout.as_bytes()), expected, "{stdout:?}");
    }
}

#[test]
fn later_output_is_the_first_object_after_the_first_line() {
    for (stdout, expected) in [
        ("{\"async\":true}", ""),
        ("{\"async\":true}\n\n", ""),
        ("{\"async\":true}\ndone\n", ""),
        (
            "{\"async\":true}\nworking\n {\"a\":1} \n{\"b\":2}",
            "{\"a\":1}",
        ),
        ("{\"async\":true}\n{\"async\":true}\n{\"a\":1}", "{\"a\":1}"),
        ("{\"async\":true}\n{\n \"a\": 1\n}\n", "{\n \"a\": 1\n}"),
    ] {
        let later = FirstLine::later(stdout.as_bytes());
        assert_eq!(String::from_utf8_lossy(&later), expected, "{stdout:?}");
    }
}

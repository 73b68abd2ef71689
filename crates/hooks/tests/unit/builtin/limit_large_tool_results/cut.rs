//! Unit tests of `src/builtin/limit_large_tool_results/cut.rs`.

use super::*;

fn lines(count: usize, length: usize) -> String {
    let line = |number| format!("{number:0width$}\n", width = length - 1);
    (1..=count).map(line).collect()
}

#[test]
fn is_large_checks_lines_and_bytes() {
    for (text, large) in [
        (String::new(), false),
        (lines(2_000, 6), false),
        (lines(2_001, 6), true),
        ("x".repeat(MAX_BYTES), false),
        ("x".repeat(MAX_BYTES + 1), true),
    ] {
        assert_eq!(is_large(&text), large);
    }
}

#[test]
fn cut_keeps_whole_lines() {
    let text = lines(5_000, 6);
    let last = end(&text, 0);
    assert_eq!(last.lines().count(), KEPT_LINES - FIRST_LINES);
    assert!(last.starts_with("03016\n") && last.ends_with("05000\n"));
    assert_eq!(beginning(&text).lines().count(), KEPT_LINES);
    assert!(beginning(&text).ends_with("01990\n"));
    let wide = lines(100, 1_000);
    for part in [beginning(&wide), end(&wide, 0)] {
        assert!(part.len() > KEPT_BYTES - 1_000 && part.len() <= KEPT_BYTES);
        assert_eq!(part.len() % 1_000, 0);
    }
}

#[test]
fn too_long_line_is_cut_between_characters() {
    let text = format!("x{}", "🐳".repeat(20_000));
    for part in [beginning(&text), end(&text, 0)] {
        assert!(part.len() <= KEPT_BYTES && part.len() > KEPT_BYTES - 4);
        assert!(part.ends_with('🐳'));
    }
}

#[test]
fn cut_fills_the_limit_with_a_part_of_a_long_line() {
    let long = "x".repeat(60_000);
    assert_eq!(end(&format!("{long}\nlast\n"), 0).len(), KEPT_BYTES);
    assert_eq!(beginning(&format!("first\n{long}")).len(), KEPT_BYTES);
}

#[test]
fn first_lines_are_shown_before_the_end() {
    let text = cut(&lines(5_000, 6), KeptPart::End, None);
    assert!(text.starts_with(
        "00001\n00002\n00003\n00004\n00005\n[this result was cut: the tool gave 5000 lines"
    ));
    assert!(
        text.contains("the first 5 lines and the last"),
        "{text:.200}"
    );
    assert_eq!(first_lines(&lines(10, 300)), lines(3, 300));
    assert_eq!(first_lines(&"x".repeat(60_000)), "");
}

#[test]
fn what_a_tool_left_out_is_not_said_to_be_kept() {
    let omission = "[… 14900000 bytes left out: narrow the command down]";
    let text = format!("{}{omission}\n{}", lines(2_500, 5), lines(2_500, 5));
    for kept in [KeptPart::Beginning, KeptPart::End] {
        let path = Path::new("/tmp/x.txt");
        let text = cut(&text, kept, Some(path));
        let notice = text.lines().find(|line| line.starts_with("[this"));
        let notice = notice.unwrap_or_default();
        assert!(
            notice.contains("kept nowhere: [… 14900000 bytes left out"),
            "{notice}"
        );
        assert!(
            notice.contains("what it gave is in the file /tmp/x.txt"),
            "{notice}"
        );
        assert!(!notice.contains("all of it"), "{notice}");
    }
}

#[test]
fn cut_text_is_not_large() {
    let path = Path::new("/tmp/cachalot-results-abcdef/shell-abcdef.txt");
    let omission = format!("[… 20 bytes left out: {}]\n", "ä".repeat(40_000));
    for text in [
        lines(5_000, 2),
        lines(5_000, 100),
        lines(5_000, 170),
        "ä".repeat(90_000),
        lines(100, 100) + &omission + &lines(5_000, 2),
    ] {
        for kept in [KeptPart::Beginning, KeptPart::End] {
            assert!(!is_large(&cut(&text, kept, Some(path))));
            assert!(!is_large(&cut(&text, kept, None)));
        }
    }
}

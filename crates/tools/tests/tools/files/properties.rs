//! Properties of all texts.

use std::fmt::Write as _;

use cachalot_tools::builtin::files::patch::{Action, Mark, Patch, apply_hunks};
use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::tool_fixture::{ToolFixture, text};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

/// Texts of few words, so that they repeat.
fn content() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "ab", " ", "\n", "ä\n", "aa", "\t", "\n\n"]),
        0..24,
    )
    .prop_map(|words| words.concat())
}

/// Lines that need not differ, without line ends.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = prop::sample::select(vec![
        "", "a", "b", "  a", "c d", "+x", "-y", "@@ z", "*** w", "é",
    ]);
    prop::collection::vec(line.prop_map(str::to_owned), 0..12)
}

fn joined(lines: &[String], ending: &str, ends_open: bool) -> String {
    let mut text: String = lines.iter().map(|line| format!("{line}{ending}")).collect();
    if ends_open {
        text.truncate(text.len().saturating_sub(ending.len()));
    }
    text
}

/// The lines of `old` and `new` as one hunk: what they have in common at both ends is context.
fn hunk(old: &[String], new: &[String], context: usize) -> String {
    let shared =
        |a: &mut dyn Iterator<Item = (&String, &String)>| a.take_while(|(a, b)| a == b).count();
    let before = shared(&mut old.iter().zip(new));
    let maximum = old.len().min(new.len()) - before;
    let after = shared(&mut old.iter().rev().zip(new.iter().rev())).min(maximum);
    let mut text = String::from("@@\n");
    let mut put = |mark: char, lines: &[String]| {
        for line in lines {
            writeln!(text, "{mark}{line}").unwrap();
        }
    };
    put(' ', &old[before.saturating_sub(context)..before]);
    put('-', &old[before..old.len() - after]);
    put('+', &new[before..new.len() - after]);
    put(
        ' ',
        &old[old.len() - after..(old.len() - after).saturating_add(context).min(old.len())],
    );
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn edit_equals_a_string_replacement(content in content(), start in 0..40_usize, length in 1..6_usize, new in content(), all: bool) {
        let old: String = content.chars().skip(start).take(length).collect();
        prop_assume!(!old.is_empty() && old != new);
        let tool_fixture = ToolFixture::holding(&[("f", &content)]);
        let arguments = json!({"path": "f", "old_text": old, "new_text": new, "replace_all": all});
        let output = runtime().block_on(tool_fixture.call("edit_file", arguments));
        let overlapping = (0..content.len())
            .filter(|at| content.is_char_boundary(*at) && content[*at..].starts_with(&old))
            .count();
        if all {
            prop_assert!(!output.is_error, "{}", text(&output));
            prop_assert_eq!(tool_fixture.read("f"), content.replace(&old, &new));
        } else if overlapping == 1 {
            prop_assert!(!output.is_error, "{}", text(&output));
            prop_assert_eq!(tool_fixture.read("f"), content.replacen(&old, &new, 1));
        } else {
            prop_assert!(output.is_error);
            prop_assert_eq!(tool_fixture.read("f"), content);
        }
    }

    #[test]
    fn patch_of_the_whole_file_creates_the_new_content(old in lines(), new in lines(), windows: bool, ends_open: bool) {
        prop_assume!(old != new && !old.is_empty());
        let ending = if windows { "\r\n" } else { "\n" };
        // A file of nothing but an open, empty line is an empty file.
        let before = joined(&old, ending, ends_open);
        let open = ends_open && !old.last().is_some_and(String::is_empty);
        prop_assume!(open == ends_open);
        prop_assume!(!(ends_open && new.last().is_some_and(String::is_empty)));
        prop_assume!(before.contains('\n') || !windows);
        let tool_fixture = ToolFixture::holding(&[("f", &before)]);
        let patch = format!("*** Begin Patch\n*** Update File: f\n{}*** End Patch\n", hunk(&old, &new, usize::MAX));
        let output = runtime().block_on(tool_fixture.call("apply_patch", json!({"patch": patch})));
        prop_assert!(!output.is_error, "{}\n{}", text(&output), patch);
        prop_assert_eq!(tool_fixture.read("f"), joined(&new, ending, ends_open), "{}", patch);
    }

    #[test]
    fn hunks_with_little_context_are_located(count in 8..60_usize, edits in prop::collection::btree_map(0..8_usize, (0..3_usize, lines()), 1..4)) {
        // All lines differ, so that three lines of context are enough.
        let old: Vec<String> = (0..count).map(|number| format!("line {number}")).collect();
        let mut new = Vec::new();
        let mut patch = String::from("*** Begin Patch\n*** Update File: f\n");
        let mut done = 0;
        for (slot, (removed, added)) in &edits {
            let at = (slot * count / 8).max(done);
            let end = (at + removed).min(count);
            if at == end && added.is_empty() {
                continue;
            }
            new.extend_from_slice(&old[done..at]);
            patch.push_str("@@\n");
            let context = at.saturating_sub(3).max(done);
            for line in &old[context..at] {
                writeln!(patch, " {line}").unwrap();
            }
            for line in &old[at..end] {
                writeln!(patch, "-{line}").unwrap();
            }
            for line in added {
                writeln!(patch, "+{line}").unwrap();
            }
            if end < count {
                // Something to hold on to where nothing is before it.
                writeln!(patch, " {}", old[end]).unwrap();
            }
            new.extend_from_slice(added);
            done = end;
            if end < count {
                new.push(old[end].clone());
                done += 1;
            }
        }
        new.extend_from_slice(&old[done..]);
        patch.push_str("*** End Patch\n");
        prop_assume!(new != old);
        let tool_fixture = ToolFixture::holding(&[("f", &joined(&old, "\n", false))]);
        let output = runtime().block_on(tool_fixture.call("apply_patch", json!({"patch": patch})));
        prop_assert!(!output.is_error, "{}\n{}", text(&output), patch);
        prop_assert_eq!(tool_fixture.read("f"), joined(&new, "\n", false), "{}", patch);
    }

    #[test]
    fn ranges_of_read_file_cover_the_file(lines in lines(), ends_open: bool, step in 1..5_usize) {
        let content = joined(&lines, "\n", ends_open);
        prop_assume!(!content.is_empty());
        let total = content.lines().count();
        let tool_fixture = ToolFixture::holding(&[("f", &content)]);
        let runtime = runtime();
        let mut tiled = String::new();
        for offset in (1..=total).step_by(step) {
            let arguments = json!({"path": "f", "offset": offset, "limit": step});
            let shown = runtime.block_on(tool_fixture.done("read_file", arguments));
            tiled.extend(shown.lines().filter(|line| !line.starts_with('[')).map(|line| format!("{line}\n")));
        }
        let whole = runtime.block_on(tool_fixture.done("read_file", json!({"path": "f"})));
        prop_assert_eq!(&tiled, &whole);
        let text: Vec<&str> = whole.lines().map(|line| line.split_once('\t').unwrap().1).collect();
        prop_assert_eq!(text, content.lines().collect::<Vec<_>>());
    }
}

/// Texts that are nearly patches.
fn nearly_a_patch() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        prop::sample::select(vec![
            "*** Begin Patch",
            "*** End Patch",
            "*** Update File: f",
            "*** Add File: g",
            "*** Delete File: h",
            "*** Move to: i",
            "*** End of File",
            "@@",
            "@@ a",
            "@@ -2,1 +2 @@",
            " a",
            "-a",
            "+a",
            " b",
            "-b",
            "+b",
            "",
            " ",
            "```",
            "\\ No newline",
            "\r",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ];
    let body = prop::collection::vec(line, 0..16).prop_map(|lines| lines.join("\n"));
    (any::<bool>(), body).prop_map(|(wrapped, body)| {
        if wrapped {
            format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
        } else {
            body
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_text_is_a_patch_or_refused_with_a_line(text in nearly_a_patch(), file in lines()) {
        let file = joined(&file, "\n", false);
        match Patch::parse(&text) {
            Err(wrong) => prop_assert!((1..=text.split('\n').count()).contains(&wrong.line), "{wrong}"),
            Ok(patch) => {
                for section in &patch.sections {
                    let Action::Update { hunks, .. } = &section.action else { continue };
                    let Ok(after) = apply_hunks(hunks, file.as_bytes()) else { continue };
                    let count = |wanted: Mark| hunks
                        .iter()
                        .flat_map(|hunk| &hunk.lines)
                        .filter(|(mark, _)| *mark == wanted)
                        .count();
                    let after = String::from_utf8(after).unwrap();
                    prop_assert_eq!(
                        after.lines().count() + count(Mark::Removed),
                        file.lines().count() + count(Mark::Added)
                    );
                }
            }
        }
    }
}

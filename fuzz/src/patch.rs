//! Any text as a patch, applied to any text: no panic, places that lie in the text, and as many lines
//! as the patch says. What is to be changed and the patch are separated by a NUL.

use cachalot_tools::builtin::files::patch::{Action, Hunk, Mark, Patch, apply_hunks};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    let (file, patch) = text.split_once('\0').unwrap_or(("", text));
    match Patch::parse(patch) {
        Err(wrong) => assert!(
            (1..=patch.split('\n').count()).contains(&wrong.line),
            "{wrong}"
        ),
        Ok(patch) => {
            assert!(!patch.sections.is_empty());
            for section in &patch.sections {
                assert!(!section.path.is_empty());
                if let Action::Update { hunks, .. } = &section.action {
                    check_hunks(hunks, file);
                }
            }
        }
    }
}

fn check_hunks(hunks: &[Hunk], file: &str) {
    assert!(hunks.iter().all(|hunk| !hunk.lines.is_empty()));
    let Ok(after) = apply_hunks(hunks, file.as_bytes()) else {
        return;
    };
    let count = |wanted: Mark| {
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|(mark, _)| *mark == wanted).count()
    };
    let lines = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').count();
    let expected = lines(file.as_bytes()) + count(Mark::Added) - count(Mark::Removed);
    // An empty last line without its newline is no line.
    let found = lines(&after);
    assert!(
        found == expected || found + 1 == expected,
        "{found} lines, not {expected}"
    );
}

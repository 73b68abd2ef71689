//! Idioms and calls of the standard library: the embedded Python gives what CPython gives, or
//! refuses them by name.
//!
//! A file of `corpus/` has one expression per line. `## ` sets the statements before the
//! expressions that follow. A line with only `:` begins a block, which ends at an empty line.

use cachalot_workflow::script::{ScriptFailure, ScriptResult, check};

use crate::harness::{alone, python, python3, tests, wait};

tests!(
    idioms_agree_with_cpython_or_are_refused,
    most_idioms_are_supported
);

const FILES: [(&str, &str); 9] = [
    ("containers", include_str!("corpus/containers.txt")),
    ("differences", include_str!("corpus/differences.txt")),
    ("format", include_str!("corpus/format.txt")),
    ("idioms", include_str!("corpus/idioms.txt")),
    ("json", include_str!("corpus/json.txt")),
    ("lang", include_str!("corpus/lang.txt")),
    ("modules", include_str!("corpus/modules.txt")),
    ("re", include_str!("corpus/re.txt")),
    ("str", include_str!("corpus/str.txt")),
];

/// The blocks of a file. An expression becomes a block that returns its `repr`.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut before = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with("# ") {
        } else if let Some(statements) = line.strip_prefix("## ") {
            before = format!("{statements}\n");
        } else if line == ":" {
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            blocks.push(format!("{before}{}", body.join("\n")));
        } else {
            blocks.push(format!("{before}return repr(({line}))"));
        }
    }
    blocks
}

/// The name of the exception that a block ended with, without its module.
fn kind(failure: &ScriptFailure) -> &str {
    let name = failure.message.split(':').next().unwrap_or_default();
    match name.rsplit('.').next().unwrap_or_default() {
        // Renamed in Python 3.13.
        "PatternError" => "error",
        name => name,
    }
}

fn same(
    ours: &Result<ScriptResult, ScriptFailure>,
    theirs: &Result<ScriptResult, ScriptFailure>,
) -> bool {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            // CPython prints warnings about the code itself.
            let warned = theirs.printed.contains("Warning: ");
            ours.returned == theirs.returned && (warned || ours.printed == theirs.printed)
        }
        (Err(ours), Err(theirs)) => {
            ours.kind == theirs.kind && (ours.kind != "script_error" || kind(ours) == kind(theirs))
        }
        _ => false,
    }
}

fn refused(failure: &ScriptFailure) -> bool {
    failure.kind == "script_unsupported" && failure.message.contains("`language: python3`")
}

fn idioms_agree_with_cpython_or_are_refused() {
    let Some(theirs) = python3() else { return };
    wait(async {
        let ours = python();
        let mut wrong = Vec::new();
        for (file, text) in FILES {
            for source in blocks(text) {
                let embedded = alone(&ours, &source).await;
                let checked = check(&source, 1);
                match (&checked, &embedded) {
                    (Ok(()), Err(failure)) if refused(failure) => continue,
                    (Err(failure), Err(run)) if refused(failure) && failure == run => continue,
                    (Err(failure), _) if failure.kind == "script_unsupported" => {
                        wrong.push(format!(
                            "{file}: only `check` refuses:\n{source}\n{failure}"
                        ));
                        continue;
                    }
                    _ => {}
                }
                let reference = alone(&theirs, &source).await;
                if !same(&embedded, &reference) {
                    wrong.push(format!(
                        "{file}:\n{source}\nembedded: {embedded:?}\nCPython: {reference:?}"
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    });
}

/// Refusing everything would agree, too.
fn most_idioms_are_supported() {
    wait(async {
        let ours = python();
        let (mut all, mut refusals) = (0, 0);
        // Of the differences, many are refused.
        let idioms = FILES.into_iter().filter(|(file, _)| *file != "differences");
        for (_, text) in idioms {
            for source in blocks(text) {
                all += 1;
                refusals +=
                    usize::from(matches!(alone(&ours, &source).await, Err(it) if refused(&it)));
            }
        }
        assert!(all > 1_500, "{all} idioms");
        assert!(refusals * 100 < all * 16, "{refusals} of {all} are refused");
    });
}

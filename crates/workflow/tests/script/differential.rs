//! Idioms within the allow-list: the embedded Python gives what CPython gives.
//!
//! A file of `corpus/` has one expression per line. `## ` sets the statements before the
//! expressions that follow. A line with only `:` begins a block, which ends at an empty line.

use cachalot_workflow::script::{ScriptFailure, ScriptResult, check};

use crate::harness::{alone, python, python3, tests, wait};

tests!(idioms_agree_with_cpython, idioms_are_on_the_list);

const FILES: [(&str, &str); 8] = [
    ("containers", include_str!("corpus/containers.txt")),
    ("differences", include_str!("corpus/differences.txt")),
    ("format", include_str!("corpus/format.txt")),
    ("idioms", include_str!("corpus/idioms.txt")),
    ("json", include_str!("corpus/json.txt")),
    ("lang", include_str!("corpus/lang.txt")),
    ("modules", include_str!("corpus/modules.txt")),
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
    name.rsplit('.').next().unwrap_or_default()
}

pub(crate) fn same(
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
            ours.kind == theirs.kind
                && ours.line == theirs.line
                && (ours.kind != "script_error" || kind(ours) == kind(theirs))
        }
        _ => false,
    }
}

pub(crate) fn refused(failure: &ScriptFailure) -> bool {
    failure.kind == "script_unsupported" && failure.message.contains("`language: python3`")
}

fn idioms_agree_with_cpython() {
    let Some(theirs) = python3() else { return };
    wait(async {
        let ours = python();
        let mut wrong = Vec::new();
        for (file, text) in FILES {
            for source in blocks(text) {
                let embedded = alone(&ours, &source).await;
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

/// Without a Python to compare with, at least nothing is refused.
fn idioms_are_on_the_list() {
    wait(async {
        let ours = python();
        let mut all = 0;
        for (_, text) in FILES {
            for source in blocks(text) {
                all += 1;
                assert_eq!(check(&source, 1), Ok(()), "{source}");
                let ended = alone(&ours, &source).await;
                assert!(
                    !matches!(&ended, Err(it) if refused(it)),
                    "{source}\n{ended:?}"
                );
            }
        }
        assert!(all > 600, "{all} idioms");
    });
}

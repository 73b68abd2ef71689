//! Catalogs: codes of problems, backends, words of templates.

use cachalot_backends::BACKENDS;
use cachalot_prefix::diagnosis::LikelyCause;
use cachalot_workflow::codes;

use crate::markdown::{code, codes as in_code, row};

/// Returns a table of the codes of problems.
pub(crate) fn problems() -> String {
    let mut table = "| code | meaning |\n|---|---|\n".to_owned();
    for (name, meaning) in codes::ALL {
        row(&mut table, &[code(name), (*meaning).to_owned()]);
    }
    table
}

/// Returns a table of the backends that a URL names.
pub(crate) fn backends() -> String {
    let mut table = "| backend | URL | schemes | password in |\n|---|---|---|---|\n".to_owned();
    for backend in &BACKENDS {
        let variable = backend.password_variable.map(code).unwrap_or_default();
        let schemes = in_code(backend.schemes.iter().copied());
        row(
            &mut table,
            &[code(backend.name), code(backend.example), schemes, variable],
        );
    }
    table
}

/// Returns the causes of prefix breaks.
pub(crate) fn causes() -> String {
    let causes = LikelyCause::ALL.iter().map(|cause| cause.code());
    format!("{}\n", in_code(causes))
}

/// Returns a list of words.
pub(crate) fn words(words: &[&str]) -> String {
    format!("{}\n", in_code(words.iter().copied()))
}

//! Problems with their place in the source.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use miette::{Diagnostic, LabeledSpan, ReportHandler as _, Severity, SourceCode};

use super::excerpt::Excerpt;
use super::visible::visible;

/// A problem as miette renders it.
#[derive(Debug)]
struct ProblemReport<'a> {
    problem: &'a Problem,
    source: Option<Excerpt>,
}

impl std::fmt::Display for ProblemReport<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&visible(&self.problem.message))
    }
}

impl std::error::Error for ProblemReport<'_> {}

impl Diagnostic for ProblemReport<'_> {
    fn code<'b>(&'b self) -> Option<Box<dyn std::fmt::Display + 'b>> {
        Some(Box::new(self.problem.code))
    }

    fn severity(&self) -> Option<Severity> {
        Some(if self.problem.is_warning {
            Severity::Warning
        } else {
            Severity::Error
        })
    }

    fn help<'b>(&'b self) -> Option<Box<dyn std::fmt::Display + 'b>> {
        self.problem
            .help
            .as_ref()
            .map(|help| Box::new(visible(help)) as Box<dyn std::fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = LabeledSpan::new_with_span(None, self.source.as_ref()?.span());
        Some(Box::new(std::iter::once(span)))
    }
}

/// Renders problems as text for stderr. `sources` are the texts of the files that they may refer to, by name.
pub(crate) fn render(problems: &[Problem], sources: &BTreeMap<String, String>) -> String {
    let handler = miette::MietteHandlerOpts::new().build();
    let mut text = String::new();
    for problem in problems {
        let source = problem
            .place
            .as_ref()
            .and_then(|place| Excerpt::new(sources.get(&*place.file)?, place));
        let shown = ProblemReport { problem, source };
        let rendered = std::fmt::from_fn(|f| handler.debug(&shown, f));
        text.push_str(&format!("{rendered}\n"));
    }
    text
}

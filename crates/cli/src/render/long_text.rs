//! Long texts on a terminal: how many lines are shown, and the line that stands for the others.

use cachalot_core::text::grouped;

/// The maximum number of lines of a diff.
pub(crate) const DIFF: usize = 80;
/// The maximum number of lines of one argument in an approval question.
pub(crate) const ARGUMENT: usize = 60;
/// The maximum number of lines of a message of an earlier exchange.
pub(crate) const EARLIER_MESSAGE: usize = 20;
/// The maximum number of lines at the beginning and at the end of the output of a command.
pub(crate) const COMMAND_OUTPUT: usize = 5;
/// The maximum number of lines of the output of a command that still runs.
pub(crate) const RUNNING_OUTPUT: usize = 5;

/// Returns the first lines, at most `maximum`. If there are more, a line with their number follows, which `indent`
/// precedes.
pub(crate) fn first_lines(
    lines: impl IntoIterator<Item = String>,
    maximum: usize,
    indent: &str,
) -> Vec<String> {
    let mut lines = lines.into_iter();
    let mut shown: Vec<String> = lines.by_ref().take(maximum).collect();
    let others = lines.count();
    if others > 0 {
        shown.push(indent.to_owned() + &more_lines(others));
    }
    shown
}

/// Returns the line that stands for lines which are not shown.
pub(crate) fn more_lines(count: usize) -> String {
    let count = grouped(count as u64);
    format!(
        "… {count} more {}",
        if count == "1" { "line" } else { "lines" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stands_for_those_that_are_not_shown() {
        let shown = |count: usize| {
            let lines = (1..=count).map(|number| number.to_string());
            first_lines(lines, 2, "  ")
        };
        assert_eq!(shown(2), ["1", "2"]);
        assert_eq!(shown(3), ["1", "2", "  … 1 more line"]);
        assert_eq!(shown(1_502), ["1", "2", "  … 1,500 more lines"]);
        assert!(shown(0).is_empty());
    }
}

//! Output of commands as lines: folded when a command has ended, the last lines while it runs.

use cachalot_core::text::is_omission;
use cachalot_tools::LiveOutput;

use crate::render::long_text::{self, more_lines};
use crate::render::visible::visible;

/// The part of the output in which the last lines are looked for.
const MAX_END_BYTES: usize = 4 << 10;

/// Returns the lines of an output. Of a line that a carriage return overwrites (a progress bar), only the last
/// state counts.
fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.lines().map(|line| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or_default()
    })
}

/// Returns the lines of an output, indented.
pub(super) fn all_lines(text: &str) -> Vec<String> {
    lines(text)
        .map(|line| format!("    {}", visible(line)))
        .collect()
}

/// Returns the first and last lines of an output, indented.
pub(super) fn folded(text: &str) -> Vec<String> {
    let lines: Vec<&str> = lines(text).collect();
    let shown = |lines: &[&str]| -> Vec<String> {
        let lines = lines.iter();
        lines.map(|line| format!("    {}", visible(line))).collect()
    };
    if lines.len() <= 2 * long_text::COMMAND_OUTPUT + 1 {
        return shown(&lines);
    }
    let (first, rest) = lines.split_at(long_text::COMMAND_OUTPUT);
    let (middle, last) = rest.split_at(rest.len() - long_text::COMMAND_OUTPUT);
    let mut folded = shown(first);
    let left_out = middle.iter().filter(|line| is_omission(line)).count();
    let more = more_lines(middle.len() - left_out);
    folded.push(match left_out {
        0 => format!("    {more}"),
        _ => format!("    {more}, and others that were left out of the result"),
    });
    folded.extend(shown(last));
    folded
}

/// Returns up to `count` of the last lines that a running command has written.
pub(super) fn last_lines(output: &LiveOutput, count: usize) -> Vec<String> {
    let text = output.end(MAX_END_BYTES);
    let lines = lines(&text).rev().take(count);
    let mut lines: Vec<String> = lines.map(|line| visible(line).into_owned()).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Written(&'static str);

    impl cachalot_tools::OutputSource for Written {
        fn text(&self) -> String {
            self.0.to_owned()
        }

        fn end(&self, limit: usize) -> String {
            self.0[self.0.len().saturating_sub(limit)..].to_owned()
        }
    }

    fn written(text: &'static str) -> LiveOutput {
        let output = LiveOutput::default();
        output.publish(Arc::new(Written(text)));
        output
    }

    #[test]
    fn overwritten_lines_are_one_line() {
        let text = "start\r\n 1%\r 50%\r100%\r\ndone\n 1%\r 2%\r";
        assert_eq!(
            lines(text).collect::<Vec<_>>(),
            ["start", "100%", "done", " 2%"]
        );
    }

    #[test]
    fn last_lines_are_those_that_were_written_last() {
        let output = written("one\ntwo\u{1b}[1m\n\nthree\n50%");
        assert_eq!(last_lines(&output, 2), ["three", "50%"]);
        assert_eq!(
            last_lines(&output, 9),
            ["one", "two␛[1m", "", "three", "50%"]
        );
        assert_eq!(last_lines(&written(""), 5), [""; 0]);
        assert_eq!(last_lines(&LiveOutput::default(), 5), [""; 0]);
    }

    #[test]
    fn long_outputs_are_folded() {
        let text: Vec<String> = (1..=11).map(|line| line.to_string()).collect();
        assert_eq!(folded(&text.join("\n")).len(), 11);
        let folded = folded(&(text.join("\n") + "\n12\n"));
        assert_eq!(folded[4..7], ["    5", "    … 2 more lines", "    8"]);
        assert_eq!(folded.len(), 11);
    }

    #[test]
    fn what_was_left_out_is_not_counted_as_shown() {
        let lines = |from: u32, to: u32| -> String {
            (from..=to).map(|line| format!("{line}\n")).collect()
        };
        for notice in [
            "[… 99 bytes left out: narrow the command down …]",
            "[this result was cut: the tool gave 9 lines]",
        ] {
            let folded = folded(&format!("{}{notice}\n{}", lines(1, 5), lines(3_000, 4_007)));
            assert_eq!(
                folded[4..7],
                [
                    "    5",
                    "    … 1,003 more lines, and others that were left out of the result",
                    "    4003",
                ]
            );
        }
    }
}

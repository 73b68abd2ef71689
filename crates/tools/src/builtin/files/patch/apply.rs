//! Applies hunks to a text.

use super::{Hunk, HunkError, Mark, Mismatch, behind};
use crate::builtin::files::near_match;
use crate::builtin::files::text::{Line, LineEndings, lines};

/// The result of applying hunks.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::builtin::files) struct Applied {
    pub(in crate::builtin::files) bytes: Vec<u8>,
    pub(in crate::builtin::files) added: usize,
    pub(in crate::builtin::files) removed: usize,
    /// The first changed line of each hunk in the new text, from 1.
    pub(in crate::builtin::files) places: Vec<usize>,
}

/// Applies hunks, which are in the order of the text. Lines keep their endings, and new lines get the most
/// frequent one. The presence of a newline at the end of the file does not change.
pub(in crate::builtin::files) fn apply(hunks: &[Hunk], bytes: &[u8]) -> Result<Applied, HunkError> {
    let lines = lines(bytes);
    let mut result = PatchedText {
        old: &lines,
        copied: 0,
        new: Vec::with_capacity(lines.len()),
        most_common: LineEndings::detect(bytes).most_common(),
        added: 0,
        removed: 0,
        places: Vec::new(),
    };
    let mut position = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let place = HunkLocator {
            lines: &lines,
            position,
            hunk,
        }
        .place()
        .map_err(|mismatch| HunkError {
            number: index + 1,
            line: hunk.line,
            mismatch,
        })?;
        position = result.take(place, hunk);
    }
    let ends_open = lines.last().is_some_and(|last| last.ending.is_empty());
    Ok(result.finish(ends_open))
}

/// The new text under construction.
struct PatchedText<'a> {
    old: &'a [Line<'a>],
    /// Number of old lines that are processed.
    copied: usize,
    new: Vec<Line<'a>>,
    most_common: &'static [u8],
    added: usize,
    removed: usize,
    places: Vec<usize>,
}

impl<'a> PatchedText<'a> {
    /// Applies a hunk whose old lines begin at `place`; returns the index of the old line after it.
    fn take(&mut self, place: usize, hunk: &'a Hunk) -> usize {
        self.new.extend_from_slice(&self.old[self.copied..place]);
        self.copied = place;
        let mut first = None;
        for (mark, text) in &hunk.lines {
            if *mark != Mark::Context {
                first.get_or_insert(self.new.len() + 1);
            }
            match mark {
                Mark::Context => {
                    // The line of the file, not that of the hunk: a lenient comparison ignores blanks.
                    self.new.push(self.old[self.copied]);
                    self.copied += 1;
                }
                Mark::Removed => {
                    self.copied += 1;
                    self.removed += 1;
                }
                Mark::Added => {
                    self.new.push(Line {
                        body: text.as_bytes(),
                        ending: self.most_common,
                    });
                    self.added += 1;
                }
            }
        }
        self.places.extend(first);
        self.copied
    }

    fn finish(mut self, ends_open: bool) -> Applied {
        self.new.extend_from_slice(&self.old[self.copied..]);
        let mut bytes = Vec::new();
        let count = self.new.len();
        for (index, line) in self.new.iter().enumerate() {
            bytes.extend_from_slice(line.body);
            let is_last = index + 1 == count;
            if is_last && ends_open {
                break;
            }
            // The former last line may have no ending. With lines after it, it needs one.
            bytes.extend_from_slice(if line.ending.is_empty() {
                self.most_common
            } else {
                line.ending
            });
        }
        Applied {
            bytes,
            added: self.added,
            removed: self.removed,
            places: self.places,
        }
    }
}

/// Compares a line of the file with a wanted line.
type LineComparison = fn(&[u8], &[u8]) -> bool;

/// Comparisons from strict to lenient.
const COMPARISONS: [LineComparison; 3] = [
    |line, wanted| line == wanted,
    |line, wanted| line.trim_ascii_end() == wanted.trim_ascii_end(),
    |line, wanted| line.trim_ascii() == wanted.trim_ascii(),
];

/// The search for the place of a hunk.
struct HunkLocator<'a> {
    lines: &'a [Line<'a>],
    /// The first line at which the hunk may be.
    position: usize,
    hunk: &'a Hunk,
}

impl HunkLocator<'_> {
    /// Returns the index of the line at which the hunk's old lines begin.
    fn place(mut self) -> Result<usize, Mismatch> {
        let mut behind_anchor = None;
        for anchor in &self.hunk.anchors {
            let at = self.anchor(anchor, behind_anchor.unwrap_or(self.position))?;
            // The lines of the hunk may begin with the anchor's own line. Only the next anchor must come after it.
            self.position = at;
            behind_anchor = Some(at + 1);
        }
        let wanted: Vec<&[u8]> = self
            .hunk
            .lines
            .iter()
            .filter(|(mark, _)| *mark != Mark::Added)
            .map(|(_, text)| text.as_bytes())
            .collect();
        if wanted.is_empty() {
            return Ok(self.insertion(behind_anchor));
        }
        for like in COMPARISONS {
            let found = self.occurrences(&wanted, like);
            if !found.is_empty() {
                return self.choose(&found, wanted.len());
            }
        }
        Err(Mismatch::Missing(self.describe_near_match(&wanted)))
    }

    fn anchor(&self, anchor: &str, from: usize) -> Result<usize, Mismatch> {
        COMPARISONS
            .iter()
            .find_map(|like| {
                (from..self.lines.len()).find(|at| like(self.lines[*at].body, anchor.as_bytes()))
            })
            .ok_or_else(|| Mismatch::Anchor(anchor.to_owned(), from))
    }

    /// Returns the index at which lines without context are inserted.
    fn insertion(&self, behind_anchor: Option<usize>) -> usize {
        let at = match (behind_anchor, self.hunk.near) {
            (Some(at), _) => at,
            (None, Some(line)) => line,
            (None, None) => self.lines.len(),
        };
        at.clamp(self.position, self.lines.len())
    }

    fn occurrences(&self, wanted: &[&[u8]], like: LineComparison) -> Vec<usize> {
        let Some(last) = self.lines.len().checked_sub(wanted.len()) else {
            return Vec::new();
        };
        (self.position..=last)
            .filter(|at| {
                self.lines[*at..]
                    .iter()
                    .zip(wanted)
                    .all(|(line, wanted)| like(line.body, wanted))
            })
            .collect()
    }

    /// Chooses the intended occurrence.
    fn choose(&self, found: &[usize], length: usize) -> Result<usize, Mismatch> {
        let at_end = self.lines.len().saturating_sub(length);
        if self.hunk.at_end && found.contains(&at_end) {
            return Ok(at_end);
        }
        if let [only] = found {
            return Ok(*only);
        }
        // The search began at the anchor, so that the first occurrence is the one that the anchor points to.
        if !self.hunk.anchors.is_empty() {
            return Ok(found[0]);
        }
        if let Some(near) = self.hunk.near {
            // With two places at the same distance, a choice could change the wrong one. The model then has to give
            // more context.
            let distance = |at: &usize| (at + 1).abs_diff(near);
            let nearest = found.iter().map(distance).min().unwrap_or_default();
            let mut all = found.iter().filter(|at| distance(at) == nearest);
            if let (Some(at), None) = (all.next(), all.next()) {
                return Ok(*at);
            }
        }
        let lines = found.iter().map(|at| at + 1);
        Err(Mismatch::Ambiguous(lines.collect()))
    }

    fn describe_near_match(&self, wanted: &[&[u8]]) -> String {
        let rest = &self.lines[self.position.min(self.lines.len())..];
        match near_match::describe_near_match(self.lines, wanted) {
            Some(near) if near_match::describe_near_match(rest, wanted).is_none() => {
                format!("{}, where it must lie: {near}", behind(self.position))
            }
            Some(near) => format!(": {near}"),
            None => ", and nothing comes near; read it again".to_owned(),
        }
    }
}

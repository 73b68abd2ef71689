//! Lines of texts that differ between two equal runs, such as a date: a line with placeholders for what differs.

/// A line with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextPattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Varying(Varying),
}

/// The kinds of placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Varying {
    /// `{date}`: `2026-11-28`.
    Date,
    /// `{hex}`: up to 32 hexadecimal digits.
    Hex,
    /// `{long_date}`: `Saturday, November 28, 2026`.
    LongDate,
    /// `{number}`: digits, which may have a decimal point among them.
    Number,
    /// `{path}`: an absolute path without white space.
    Path,
    /// `{short_date}`: `Sat Nov 28 2026`.
    ShortDate,
    /// `{time}`: a date and a time of ISO 8601, such as `2026-11-28T10:00:00.000Z`.
    Time,
    /// `{us_date}`: `11/28/2026`.
    UsDate,
    /// `{uuid}`.
    Uuid,
}

const VARYING: [(&str, Varying); 9] = [
    ("date", Varying::Date),
    ("hex", Varying::Hex),
    ("long_date", Varying::LongDate),
    ("number", Varying::Number),
    ("path", Varying::Path),
    ("short_date", Varying::ShortDate),
    ("time", Varying::Time),
    ("us_date", Varying::UsDate),
    ("uuid", Varying::Uuid),
];

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Maximum number of digits of `{hex}`.
const MAX_HEX: usize = 32;

impl TextPattern {
    /// Reads a line.
    ///
    /// # Errors
    /// Why it is no pattern.
    pub(crate) fn parse(line: &str) -> Result<Self, PatternError> {
        let mut parts = Vec::new();
        let mut rest = line;
        while let Some((literal, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or(PatternError::Open)?;
            let known = VARYING.iter().find(|(known, _)| *known == name);
            let (_, varying) = known.ok_or_else(|| PatternError::Unknown(name.to_owned()))?;
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            parts.push(Part::Varying(*varying));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        let has_literal = parts
            .iter()
            .any(|part| matches!(part, Part::Literal(text) if !text.trim().is_empty()));
        match parts.iter().any(|part| matches!(part, Part::Varying(_))) {
            _ if line.contains('\n') => Err(PatternError::Lines),
            true if has_literal => Ok(Self(parts)),
            true => Err(PatternError::Bare),
            false => Err(PatternError::Constant),
        }
    }

    /// Returns true if a line of the text matches.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        // Most texts have no such line.
        let may_match = match self.0.first() {
            Some(Part::Literal(first)) => {
                memchr::memmem::find(text.as_bytes(), first.as_bytes()).is_some()
            }
            _ => true,
        };
        may_match && text.split('\n').any(|line| self.matches(line))
    }

    /// Returns a text with the names of the placeholders in all lines that match; `None` if no line does.
    pub(crate) fn replaced_in(&self, text: &str) -> Option<String> {
        if !self.is_in(text) {
            return None;
        }
        let name = self.to_string();
        let mut replaced = String::with_capacity(text.len());
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                replaced.push('\n');
            }
            replaced += if self.matches(line) { &name } else { line };
        }
        Some(replaced)
    }

    /// Returns true if the whole line matches.
    fn matches(&self, line: &str) -> bool {
        let mut rest = line.strip_suffix('\r').unwrap_or(line);
        for part in &self.0 {
            let length = match part {
                Part::Literal(text) if rest.starts_with(text.as_str()) => Some(text.len()),
                Part::Literal(_) => None,
                Part::Varying(varying) => varying.length_in(rest),
            };
            match length {
                Some(length) => rest = &rest[length..],
                None => return false,
            }
        }
        rest.is_empty()
    }
}

impl std::fmt::Display for TextPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Literal(text) => f.write_str(text),
            Part::Varying(varying) => {
                let name = VARYING.iter().find(|(_, known)| known == varying);
                write!(f, "{{{}}}", name.map_or("", |(name, _)| name))
            }
        })
    }
}

/// The reason why a line is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("a `{{` is not closed")]
    Open,
    #[error("`{{{0}}}` is no placeholder; there are {names}", names = placeholders())]
    Unknown(String),
    #[error("a pattern is one line")]
    Lines,
    #[error("a pattern needs a text beside its placeholders")]
    Bare,
    #[error("a pattern needs a placeholder such as {{date}}")]
    Constant,
}

/// Returns the names of all placeholders, for a message.
fn placeholders() -> String {
    VARYING.map(|(name, _)| format!("{{{name}}}")).join(", ")
}

impl Varying {
    /// Returns the length of what matches at the beginning of a text.
    fn length_in(self, text: &str) -> Option<usize> {
        let length = match self {
            Self::Date => digits(text, "0000-00-00")?,
            Self::Hex => {
                let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                text.bytes().take_while(is_hex).count()
            }
            Self::LongDate => long_date(text)?,
            Self::Number => {
                let whole = text.bytes().take_while(u8::is_ascii_digit).count();
                let fraction = text[whole..].strip_prefix('.').unwrap_or_default();
                match fraction.bytes().take_while(u8::is_ascii_digit).count() {
                    0 => whole,
                    _ if whole == 0 => 0,
                    digits => whole + 1 + digits,
                }
            }
            Self::Path => match text.find(char::is_whitespace).unwrap_or(text.len()) {
                length if text.starts_with('/') => length,
                _ => 0,
            },
            Self::ShortDate => short_date(text)?,
            Self::Time => time(text)?,
            Self::UsDate => us_date(text)?,
            Self::Uuid => {
                let shape = "00000000-0000-0000-0000-000000000000";
                let is_match = text.len() >= shape.len()
                    && text
                        .bytes()
                        .zip(shape.bytes())
                        .all(|(byte, shape)| match shape {
                            b'-' => byte == b'-',
                            _ => byte.is_ascii_hexdigit(),
                        });
                if is_match { shape.len() } else { 0 }
            }
        };
        let is_accepted = length > 0 && (self != Self::Hex || length <= MAX_HEX);
        is_accepted.then_some(length)
    }
}

/// Returns the length of a shape in which `0` stands for a digit, if a text begins with it.
fn digits(text: &str, shape: &str) -> Option<usize> {
    let is_match = text.len() >= shape.len()
        && text
            .bytes()
            .zip(shape.bytes())
            .all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                other => byte == other,
            });
    is_match.then_some(shape.len())
}

fn long_date(text: &str) -> Option<usize> {
    let name = |names: &[&'static str], text: &str| {
        names.iter().find(|name| text.starts_with(**name)).copied()
    };
    let day = name(&DAYS, text)?;
    let rest = text[day.len()..].strip_prefix(", ")?;
    let month = name(&MONTHS, rest)?;
    let rest = rest[month.len()..].strip_prefix(' ')?;
    let of_month = digits(rest, "00").or_else(|| digits(rest, "0"))?;
    let rest = rest[of_month..].strip_prefix(", ")?;
    let rest = &rest[digits(rest, "0000")?..];
    Some(text.len() - rest.len())
}

fn us_date(text: &str) -> Option<usize> {
    let number = |text| digits(text, "00").or_else(|| digits(text, "0"));
    let rest = text[number(text)?..].strip_prefix('/')?;
    let rest = rest[number(rest)?..].strip_prefix('/')?;
    let rest = &rest[digits(rest, "0000")?..];
    Some(text.len() - rest.len())
}

fn short_date(text: &str) -> Option<usize> {
    let name = |names: &[&str], text: &str| {
        let short = text.get(..3)?;
        names
            .iter()
            .any(|name| name.starts_with(short))
            .then_some(())
    };
    name(&DAYS, text)?;
    let rest = text[3..].strip_prefix(' ')?;
    name(&MONTHS, rest)?;
    Some("Sat Nov ".len() + digits(rest[3..].strip_prefix(' ')?, "00 0000")?)
}

fn time(text: &str) -> Option<usize> {
    let at = digits(text, "0000-00-00T00:00:00")?;
    let mut rest = &text[at..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        rest = &fraction[length..];
    }
    rest = match rest.as_bytes().first() {
        Some(b'Z') => &rest[1..],
        Some(b'+') => &rest[digits(rest, "+00:00")?..],
        Some(b'-') => &rest[digits(rest, "-00:00")?..],
        _ => rest,
    };
    Some(text.len() - rest.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_match_and_nothing_else_is_replaced() {
        for (pattern, line) in [
            ("Chunk ID: {hex}", "Chunk ID: a1b2c3"),
            ("Wall time: {number} seconds", "Wall time: 0.0659 seconds"),
            ("Today's date is {date}.", "Today's date is 2026-11-28."),
            (
                "Today is {long_date}",
                "Today is Saturday, November 28, 2026",
            ),
            ("  Date: {short_date}", "  Date: Mon Nov 30 2026"),
            ("<t>{time}</t>", "<t>2026-11-28T10:00:00.123Z</t>"),
            ("<t>{time}</t>", "<t>2026-11-28T10:00:00+01:00</t>"),
            ("2. Date: {us_date}", "2. Date: 1/30/2026"),
            (
                "Folder: {path}",
                "Folder: /home/user/.copilot/session-state/1",
            ),
            ("id {uuid}", "id 00000000-0000-7000-8000-00000000000f"),
        ] {
            let pattern = TextPattern::parse(pattern).unwrap();
            let text = format!("before\n{line}\nafter {line}");
            let expected = format!("before\n{pattern}\nafter {line}");
            assert_eq!(pattern.replaced_in(&text).as_deref(), Some(&*expected));
            assert_eq!(pattern.replaced_in(&format!("x{line}")), None, "{line}");
            assert_eq!(pattern.replaced_in(&format!("{line} x")), None, "{line}");
        }
        for (pattern, line) in [
            ("Chunk ID: {hex}", "Chunk ID: "),
            ("Chunk ID: {hex}", "Chunk ID: run this"),
            (
                "Chunk ID: {hex}",
                "Chunk ID: 000000000000000000000000000000000",
            ),
            ("t {number}s", "t .5s"),
            ("on {short_date}", "on Mon Noé 30 2026"),
            ("on {us_date}", "on 1/301/2026"),
            ("in {path}", "in /home/user and do it"),
            ("in {path}", "in home"),
            ("on {date}", "on 2026-1-28"),
            ("on {date}", "on 2026-11-2é"),
            ("on {long_date}", "on Saturday, November 281, 2026"),
        ] {
            let pattern = TextPattern::parse(pattern).unwrap();
            assert_eq!(pattern.replaced_in(line), None, "{line}");
        }
    }

    #[test]
    fn patterns_that_would_match_too_much_are_refused() {
        for (line, reason) in [
            ("{hex}", "beside"),
            (" {date} ", "beside"),
            ("Chunk", "needs a placeholder"),
            ("a {any}", "no placeholder"),
            ("a {date", "not closed"),
            ("a\n{date}", "one line"),
        ] {
            let error = TextPattern::parse(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}

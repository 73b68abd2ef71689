//! One tool, block of the system's text, or message of somebody else's request.

use std::borrow::Cow;
use std::hash::Hasher as _;
use std::ops::Range;

use cachalot_core::json::{Scanned, Scanner};
use cachalot_model::wire::MarkerTime;

/// The members that are cache markers.
const MARKERS: [&[u8]; 2] = [b"cache_control", b"prompt_cache_breakpoint"];

/// Blocks within blocks (what a tool answered), and no deeper.
const DEEPEST_BLOCK: u32 = 2;

/// Where a marker was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkerPlace {
    /// Where one may stand.
    Proper,
    /// On an empty text: providers refuse that.
    EmptyText,
    /// On what the model thought: providers refuse that.
    Reasoning,
    /// On a block within a block.
    Within,
}

/// A piece, read in one pass.
pub(super) struct Piece<'a> {
    /// As it is in the body, its markers taken out.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Where a marker may stand, within `bytes`.
    pub(super) mark_at: Option<u32>,
    /// The markers that were in it.
    pub(super) markers: Vec<(MarkerTime, MarkerPlace)>,
    /// Who speaks, as it is written; empty if that is not said.
    pub(super) role: &'a [u8],
    /// Its content, if that is one text and nothing else.
    saying: Option<Saying<'a>>,
}

/// The content of a message that is one text: a string, or a list of one block that is a text.
struct Saying<'a> {
    before: &'a [u8],
    /// The string, in its quotes.
    text: &'a [u8],
    behind: &'a [u8],
}

/// Where those are in the body.
struct SayingPlace {
    content: Range<usize>,
    text: Range<usize>,
}

/// What is found in a piece while it is read.
struct Walk<'a> {
    /// The markers' bytes, with a comma each.
    cuts: Vec<Range<usize>>,
    markers: Vec<(MarkerTime, MarkerPlace)>,
    role: &'a [u8],
    /// The closing brace behind which the last block ends, if a marker may stand there.
    last: Option<usize>,
    has_blocks: bool,
    saying: Option<SayingPlace>,
    /// Where the text of the last block is, if that has nothing else.
    said: Option<Range<usize>>,
}

impl<'a> Piece<'a> {
    /// Reads the value that comes next. `whole` says that a marker goes into the piece itself if it
    /// has no blocks: a tool, or a block of the system's text.
    pub(super) fn read(scanner: &mut Scanner<'a>, text: &'a [u8], whole: bool) -> Scanned<Self> {
        let first = scanner.peek();
        let from = scanner.at();
        let mut walk = Walk {
            cuts: Vec::new(),
            markers: Vec::new(),
            role: b"",
            last: None,
            has_blocks: false,
            saying: None,
            said: None,
        };
        if first == Some(b'{') {
            let end = walk.block(scanner, 0)?;
            if whole && !walk.has_blocks {
                walk.last = end;
            }
        } else {
            scanner.value()?;
        }
        let (bytes, mark_at) = walk.without_markers(&text[from..scanner.at()], from);
        Ok(Self {
            bytes,
            mark_at,
            markers: walk.markers,
            role: walk.role,
            saying: walk.saying.and_then(|place| {
                let SayingPlace { content, text: of } = place;
                let mut cuts = walk.cuts.iter();
                let around = cuts.any(|cut| !content.contains(&cut.start));
                (!around).then(|| Saying {
                    before: &text[from..content.start],
                    text: &text[of],
                    behind: &text[content.end..scanner.at()],
                })
            }),
        })
    }

    /// The same message, its content written as a list if it is one text: where the provider takes
    /// both for the same, the two are the same piece, and the text can be marked.
    pub(super) fn into_list(mut self) -> Self {
        const OPEN: &[u8] = br#"[{"type":"text","text":"#;
        const CLOSE: &[u8] = b"}]";
        let Some(Saying {
            before,
            text,
            behind,
        }) = self.saying.take()
        else {
            return self;
        };
        let bytes = [before, OPEN, text, CLOSE, behind].concat();
        let end = before.len() + OPEN.len() + text.len();
        let is_seen = !is_blank(text.get(1..text.len() - 1).unwrap_or_default());
        self.mark_at = u32::try_from(end).ok().filter(|_| is_seen);
        self.bytes = Cow::Owned(bytes);
        self
    }
}

impl<'a> Walk<'a> {
    /// Reads an object; where its closing brace is, if a marker may stand before it.
    fn block(&mut self, scanner: &mut Scanner<'a>, depth: u32) -> Scanned<Option<usize>> {
        let (mut kind, mut empty): (&[u8], bool) = (b"", false);
        let (mut said, mut others) = (None, false);
        // A marker begins with a comma: it needs something before it.
        let mut bare = true;
        let first_marker = self.markers.len();
        // Behind the opening brace, then behind each member.
        let mut behind = scanner.at() + 1;
        scanner.members(|name, scanner| {
            let text = scanner.peek() == Some(b'"');
            match name {
                _ if MARKERS.contains(&name) && scanner.peek() == Some(b'{') => {
                    let time = time(scanner.value()?);
                    self.markers.push((time, MarkerPlace::Proper));
                    self.cut(behind..scanner.at());
                }
                b"content" if depth < DEEPEST_BLOCK && scanner.peek() == Some(b'[') => {
                    self.blocks(scanner, depth)?;
                }
                b"content" if depth == 0 && text => {
                    let from = scanner.at();
                    scanner.string_value()?;
                    let content = from..scanner.at();
                    self.saying = Some(SayingPlace {
                        text: content.clone(),
                        content,
                    });
                }
                b"role" if depth == 0 && text => self.role = scanner.string()?,
                b"type" if text => kind = scanner.string()?,
                b"text" if text => {
                    let from = scanner.at();
                    empty = is_blank(scanner.string_value()?);
                    said = Some(from..scanner.at());
                }
                _ => {
                    others = true;
                    scanner.value()?;
                }
            }
            bare &= self.cuts.last().is_some_and(|cut| cut.end == scanner.at());
            behind = scanner.at();
            Ok(())
        })?;
        if depth == 1 {
            self.said = said.filter(|_| kind == b"text" && !others);
        }
        let place = match kind {
            b"thinking" | b"redacted_thinking" | b"reasoning" => MarkerPlace::Reasoning,
            b"text" | b"input_text" if empty => MarkerPlace::EmptyText,
            _ if depth == DEEPEST_BLOCK => MarkerPlace::Within,
            _ => MarkerPlace::Proper,
        };
        for (_, found) in &mut self.markers[first_marker..] {
            if *found == MarkerPlace::Proper {
                *found = place;
            }
        }
        Ok((place == MarkerPlace::Proper && !bare).then(|| scanner.at() - 1))
    }

    fn blocks(&mut self, scanner: &mut Scanner<'a>, depth: u32) -> Scanned<()> {
        let (mut last, mut count) = (None, 0);
        let from = scanner.at();
        scanner.elements(|scanner| {
            count += 1;
            if depth == 0 {
                self.said = None;
            }
            last = match scanner.peek() {
                Some(b'{') => self.block(scanner, depth + 1)?,
                _ => scanner.value().map(|_| None)?,
            };
            Ok(())
        })?;
        if depth == 0 {
            self.has_blocks = true;
            self.last = last;
            let text = self.said.take().filter(|_| count == 1);
            let content = from..scanner.at();
            self.saying = text.map(|text| SayingPlace { content, text });
        }
        Ok(())
    }

    /// Takes a member out. It begins behind what stands before it, so its comma goes with it.
    fn cut(&mut self, member: Range<usize>) {
        match self.cuts.last_mut() {
            Some(before) if before.end == member.start => before.end = member.end,
            _ => self.cuts.push(member),
        }
    }

    /// What is left of the bytes, which begin at `from`, and where a marker may stand in it.
    fn without_markers(&self, raw: &'a [u8], from: usize) -> (Cow<'a, [u8]>, Option<u32>) {
        let last = self.last.map(|last| last - from);
        if self.cuts.is_empty() {
            return (Cow::Borrowed(raw), last.and_then(|at| at.try_into().ok()));
        }
        let mut kept = Vec::with_capacity(raw.len());
        let (mut at, mut mark_at) = (0, last);
        for cut in &self.cuts {
            let (start, mut end) = (cut.start - from, cut.end - from);
            kept.extend_from_slice(&raw[at..start]);
            // The first member has its comma behind it.
            if kept.last() == Some(&b'{') {
                let blanks = raw[end..].iter().take_while(|b| b.is_ascii_whitespace());
                let comma = end + blanks.count();
                if raw.get(comma) == Some(&b',') {
                    end = comma + 1;
                }
            }
            if last.is_some_and(|last| last >= end) {
                mark_at = mark_at.map(|mark_at| mark_at - (end - start));
            }
            at = end;
        }
        kept.extend_from_slice(&raw[at..]);
        (
            Cow::Owned(kept),
            mark_at.and_then(|at| u32::try_from(at).ok()),
        )
    }
}

pub(super) fn time(marker: &[u8]) -> MarkerTime {
    match memchr::memmem::find(marker, b"\"1h\"") {
        Some(_) => MarkerTime::OneHour,
        None => MarkerTime::FiveMinutes,
    }
}

/// Whether a string, as it is written, has no visible character.
fn is_blank(string: &[u8]) -> bool {
    let mut signs = string.iter();
    while let Some(sign) = signs.next() {
        let blank = match sign {
            b'\\' => matches!(signs.next(), Some(b'n' | b't' | b'r')),
            sign => sign.is_ascii_whitespace(),
        };
        if !blank {
            return false;
        }
    }
    true
}

/// A number that two strings have in common if they are the same; of long ones, their ends and their
/// middle count.
pub(super) fn print(string: &[u8]) -> Option<u64> {
    const SAMPLE: usize = 64;
    if string.is_empty() {
        return None;
    }
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write_usize(string.len());
    if string.len() <= 3 * SAMPLE {
        hasher.write(string);
    } else {
        let middle = string.len() / 2;
        hasher.write(&string[..SAMPLE]);
        hasher.write(&string[middle..middle + SAMPLE]);
        hasher.write(&string[string.len() - SAMPLE..]);
    }
    Some(hasher.finish())
}

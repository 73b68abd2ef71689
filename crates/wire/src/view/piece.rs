//! A piece of any client's request: one tool, block of the system text, or message.

use std::borrow::Cow;
use std::ops::Range;

use cachalot_core::json::{JsonResult, Scanner};

use crate::MarkerTime;

/// Member names of cache markers.
const MARKERS: [&[u8]; 2] = [b"cache_control", b"prompt_cache_breakpoint"];

/// Maximum nesting of blocks: a tool result is a block that contains blocks.
const MAX_BLOCK_DEPTH: u32 = 2;

/// The kind of place where a marker was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkerPlace {
    /// A permitted place.
    Proper,
    /// On an empty text, which providers refuse.
    EmptyText,
    /// On reasoning, which providers refuse.
    Reasoning,
    /// On a block within a block.
    Within,
}

/// A piece, or what is known of one.
pub trait ViewPiece<'a>: From<Piece<'a>> {
    /// The role, as written; empty if there is none.
    fn role(&self) -> &[u8];

    /// Returns true if the bytes, without markers, contain these.
    fn contains(&self, bytes: &[u8]) -> bool;

    /// Returns the message with a single text as its content rewritten as a list.
    #[must_use]
    fn into_list(self) -> Self;
}

impl<'a> ViewPiece<'a> for Piece<'a> {
    fn role(&self) -> &[u8] {
        self.role
    }

    fn contains(&self, bytes: &[u8]) -> bool {
        memchr::memmem::find(&self.bytes, bytes).is_some()
    }

    fn into_list(self) -> Self {
        Self::into_list(self)
    }
}

/// A piece, parsed in one pass.
#[derive(Debug)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// The bytes of the body, without markers.
    pub bytes: Cow<'a, [u8]>,
    /// The position in `bytes` where a marker may be inserted.
    pub mark_at: Option<u32>,
    /// The markers that were removed.
    pub markers: Vec<(MarkerTime, MarkerPlace)>,
    /// The role, as written; empty if there is none.
    pub role: &'a [u8],
    /// True if the content is a string.
    pub content_is_string: bool,
    /// The content, if it is a single text.
    single_text: Option<SingleText<'a>>,
}

/// A message whose content is a single text: a string, or a list with one text block.
#[derive(Debug)]
struct SingleText<'a> {
    before: &'a [u8],
    /// The string, with its quotes.
    text: &'a [u8],
    behind: &'a [u8],
}

/// The positions of content and text in the body.
struct SingleTextRange {
    content: Range<usize>,
    text: Range<usize>,
}

/// Facts collected while a piece is parsed.
struct PieceParser<'a> {
    /// The byte ranges of the markers, each with a comma.
    cuts: Vec<Range<usize>>,
    markers: Vec<(MarkerTime, MarkerPlace)>,
    role: &'a [u8],
    content_is_string: bool,
    /// The position of the last block's closing brace, if a marker may be inserted there.
    last: Option<usize>,
    has_blocks: bool,
    single_text: Option<SingleTextRange>,
    /// The position of the last block's text, if the block contains nothing else.
    said: Option<Range<usize>>,
}

impl<'a> Piece<'a> {
    /// Parses the next value. With `whole`, a marker is inserted into the piece itself if it has no blocks: a
    /// tool, or a block of the system text.
    pub(super) fn read(scanner: &mut Scanner<'a>, text: &'a [u8], whole: bool) -> JsonResult<Self> {
        let first = scanner.peek();
        let from = scanner.at();
        let mut walk = PieceParser {
            cuts: Vec::new(),
            markers: Vec::new(),
            role: b"",
            content_is_string: false,
            last: None,
            has_blocks: false,
            single_text: None,
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
            content_is_string: walk.content_is_string,
            single_text: walk.single_text.and_then(|place| {
                let SingleTextRange { content, text: of } = place;
                let mut cuts = walk.cuts.iter();
                let around = cuts.any(|cut| !content.contains(&cut.start));
                (!around).then(|| SingleText {
                    before: &text[from..content.start],
                    text: &text[of],
                    behind: &text[content.end..scanner.at()],
                })
            }),
        })
    }

    /// Parses a piece that is given alone: an item of the list `list`.
    ///
    /// # Errors
    /// It is no JSON value, or more than one.
    pub fn read_item(list: &[u8], item: &'a [u8]) -> JsonResult<Self> {
        let mut scanner = Scanner::new(item);
        let whole = matches!(list, b"tools" | b"system");
        let piece = Self::read(&mut scanner, item, whole)?;
        scanner.end()?;
        Ok(piece)
    }

    /// Returns the message with a single-text content rewritten as a list. Where the provider treats both
    /// alike, both become the same piece, and the text can be marked.
    #[must_use]
    pub fn into_list(mut self) -> Self {
        const OPEN: &[u8] = br#"[{"type":"text","text":"#;
        const CLOSE: &[u8] = b"}]";
        let Some(SingleText {
            before,
            text,
            behind,
        }) = self.single_text.take()
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

impl<'a> PieceParser<'a> {
    /// Parses an object; returns the position of its closing brace if a marker may be inserted there.
    fn block(&mut self, scanner: &mut Scanner<'a>, depth: u32) -> JsonResult<Option<usize>> {
        let (mut kind, mut empty): (&[u8], bool) = (b"", false);
        let (mut said, mut others) = (None, false);
        // A marker begins with a comma, so it needs a member before it.
        let mut bare = true;
        let first_marker = self.markers.len();
        // The position after the opening brace, then after each member.
        let mut behind = scanner.at() + 1;
        scanner.members(|name, scanner| {
            let text = scanner.peek() == Some(b'"');
            match name {
                _ if MARKERS.contains(&name) && scanner.peek() == Some(b'{') => {
                    let time = lifetime(scanner.value()?);
                    self.markers.push((time, MarkerPlace::Proper));
                    self.cut(behind..scanner.at());
                }
                b"content" if depth < MAX_BLOCK_DEPTH && scanner.peek() == Some(b'[') => {
                    self.blocks(scanner, depth)?;
                }
                b"content" if depth == 0 && text => {
                    let from = scanner.at();
                    scanner.string_value()?;
                    self.content_is_string = true;
                    let content = from..scanner.at();
                    self.single_text = Some(SingleTextRange {
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
            _ if depth == MAX_BLOCK_DEPTH => MarkerPlace::Within,
            _ => MarkerPlace::Proper,
        };
        for (_, found) in &mut self.markers[first_marker..] {
            if *found == MarkerPlace::Proper {
                *found = place;
            }
        }
        Ok((place == MarkerPlace::Proper && !bare).then(|| scanner.at() - 1))
    }

    fn blocks(&mut self, scanner: &mut Scanner<'a>, depth: u32) -> JsonResult<()> {
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
            self.single_text = text.map(|text| SingleTextRange { content, text });
        }
        Ok(())
    }

    /// Removes a member. The range begins after the preceding member, so it includes the comma.
    fn cut(&mut self, member: Range<usize>) {
        match self.cuts.last_mut() {
            Some(before) if before.end == member.start => before.end = member.end,
            _ => self.cuts.push(member),
        }
    }

    /// Returns the remaining bytes, and the position in them where a marker may be inserted. `from` is the
    /// position of `raw` in the body.
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
            // The comma of the first member follows it.
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

pub(super) fn lifetime(marker: &[u8]) -> MarkerTime {
    let asks_for = |ttl: &[u8]| memchr::memmem::find(marker, ttl).is_some();
    match (asks_for(b"\"1h\""), asks_for(b"\"12h\"")) {
        (true, _) => MarkerTime::OneHour,
        (false, true) => MarkerTime::TwelveHours,
        (false, false) => MarkerTime::FiveMinutes,
    }
}

/// True if a string, as written, has no visible character.
fn is_blank(string: &[u8]) -> bool {
    let mut bytes = string.iter();
    while let Some(byte) = bytes.next() {
        let blank = match byte {
            b'\\' => matches!(bytes.next(), Some(b'n' | b't' | b'r')),
            byte => byte.is_ascii_whitespace(),
        };
        if !blank {
            return false;
        }
    }
    true
}

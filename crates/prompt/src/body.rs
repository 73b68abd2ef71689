//! Assembles request bodies from pieces. Segments and the contiguous body come from the same traversal,
//! so they cannot differ.

use std::ops::Range;

use bytes::Bytes;
use cachalot_model::wire::{Layout, Member, Wire};

use crate::Level;
use crate::chain::{Node, Prompt};
use crate::plan::Plan;

/// Returns the body as segments to send one after the other: the shared pieces, the separators, the
/// markers of the plan, and the tail. No piece is copied. Without its markers, the body is the same for
/// every plan.
///
/// `tail` is the result of [`Wire::tail`].
#[must_use]
pub fn segments(prompt: &Prompt, wire: &dyn Wire, plan: &Plan, tail: &Bytes) -> Vec<Bytes> {
    let mut segments = Segments(Vec::with_capacity(prompt.len() + MAX_EXTRA_SEGMENTS));
    assemble(&prompt.nodes(), wire, &marks(wire, plan), &mut segments);
    segments.0.push(tail.clone());
    segments.0
}

/// Returns the body as one buffer: the joined [`segments`], in one allocation of exactly their size.
#[must_use]
pub fn contiguous(prompt: &Prompt, wire: &dyn Wire, plan: &Plan, tail: &Bytes) -> Bytes {
    let (nodes, marks) = (prompt.nodes(), marks(wire, plan));
    // The prompt is traversed twice, the first time for the length, so that the body is one allocation.
    let mut length = Length(0);
    assemble(&nodes, wire, &marks, &mut length);
    let mut body = Contiguous(Vec::with_capacity(length.0 + tail.len()));
    assemble(&nodes, wire, &marks, &mut body);
    body.0.extend_from_slice(tail);
    Bytes::from(body.0)
}

/// Returns the segments without markers, up to the end of the last piece: the part that depends neither
/// on the plan nor on the parameters. The result for a prompt is a prefix of the result for every prompt
/// made from it by appending.
#[must_use]
pub fn prefix(prompt: &Prompt, wire: &dyn Wire) -> Vec<Bytes> {
    let mut segments = Segments(Vec::with_capacity(prompt.len() + MAX_EXTRA_SEGMENTS));
    join(&prompt.nodes(), wire.layout(), &[], &mut segments);
    segments.0
}

/// Maximum number of segments beyond one per piece: the delimiters of the body and its three arrays, two
/// more for each marked piece, and the tail.
const MAX_EXTRA_SEGMENTS: usize = 32;

/// A marker, and the index of the piece that contains it.
type Mark = (u32, Bytes);

fn marks(wire: &dyn Wire, plan: &Plan) -> Vec<Mark> {
    plan.marks()
        .iter()
        .filter_map(|mark| Some((mark.node, wire.marker(mark.time)?)))
        .collect()
}

/// Consumer of the traversal of the pieces.
trait Sink {
    fn fixed(&mut self, text: &'static str);
    fn piece(&mut self, bytes: &Bytes, part: Range<usize>);
}

struct Segments(Vec<Bytes>);

impl Sink for Segments {
    fn fixed(&mut self, text: &'static str) {
        self.0.push(Bytes::from_static(text.as_bytes()));
    }

    fn piece(&mut self, bytes: &Bytes, part: Range<usize>) {
        self.0.push(if part.len() == bytes.len() {
            bytes.clone()
        } else {
            bytes.slice(part)
        });
    }
}

struct Contiguous(Vec<u8>);

impl Sink for Contiguous {
    fn fixed(&mut self, text: &'static str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn piece(&mut self, bytes: &Bytes, part: Range<usize>) {
        self.0.extend_from_slice(&bytes[part]);
    }
}

struct Length(usize);

impl Sink for Length {
    fn fixed(&mut self, text: &'static str) {
        self.0 += text.len();
    }

    fn piece(&mut self, _bytes: &Bytes, part: Range<usize>) {
        self.0 += part.len();
    }
}

/// Writes everything except the tail.
fn assemble(nodes: &[&Node], wire: &dyn Wire, marks: &[Mark], sink: &mut impl Sink) {
    let layout = wire.layout();
    let last = join(nodes, layout, marks, sink);
    if last.is_none() {
        // The tail begins with a comma, so the array must be open.
        open(layout.messages, sink);
    }
    sink.fixed(last.unwrap_or(layout.messages).close);
}

fn open(member: Member, sink: &mut impl Sink) {
    sink.fixed("\"");
    sink.fixed(member.name);
    sink.fixed("\":");
    sink.fixed(member.open);
}

/// Writes everything up to the end of the last piece; returns the member that contains that piece.
fn join(nodes: &[&Node], layout: Layout, marks: &[Mark], sink: &mut impl Sink) -> Option<Member> {
    sink.fixed("{");
    let mut before: Option<Member> = None;
    let mut marks = marks.iter().peekable();
    for node in nodes {
        // The mark of a piece without bytes is taken too. Otherwise the marks after it would not be found.
        let mark = marks.next_if(|(index, _)| *index == node.depth);
        if node.bytes.is_empty() {
            continue;
        }
        let member = member(node.level, layout);
        let goes_on = before == Some(member);
        if !goes_on {
            if let Some(before) = before {
                sink.fixed(before.close);
                sink.fixed(",");
            }
            open(member, sink);
        }
        before = Some(member);
        if goes_on && member.is_text {
            sink.fixed(member.separator());
        }
        let has_comma = goes_on && !member.is_text;
        let bytes = if has_comma {
            &node.with_comma
        } else {
            &node.bytes
        };
        let written = member.written(bytes.len());
        match (mark, node.mark_at) {
            (Some((_, marker)), Some(at)) => {
                let at = at as usize + usize::from(has_comma);
                sink.piece(bytes, written.start..at);
                sink.piece(marker, 0..marker.len());
                sink.piece(bytes, at..written.end);
            }
            _ => sink.piece(bytes, written),
        }
    }
    before
}

fn member(level: Level, layout: Layout) -> Member {
    match level {
        Level::Tool => layout.tools,
        Level::System => layout.system.unwrap_or(layout.messages),
        Level::Message => layout.messages,
    }
}

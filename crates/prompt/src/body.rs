//! From pieces to a request body. Segments and the contiguous body come out of the same walk, so they
//! cannot differ.

use std::ops::Range;

use bytes::Bytes;
use cachalot_model::wire::{Layout, Wire};

use crate::chain::{Level, Node, Prompt};
use crate::plan::Plan;

/// The body as segments to be sent one after the other: shared pieces, what joins them, the markers
/// of the plan, and the tail. No piece is copied. Without its markers, a body is the same whatever
/// the plan is.
///
/// `tail` is what [`Wire::tail`] made.
#[must_use]
pub fn segments(prompt: &Prompt, wire: &dyn Wire, plan: &Plan, tail: &Bytes) -> Vec<Bytes> {
    let mut segments = Segments(Vec::with_capacity(prompt.len() * 2 + 24));
    assemble(&prompt.nodes(), wire, &marks(wire, plan), &mut segments);
    segments.0.push(tail.clone());
    segments.0
}

/// The body in one piece: the joined [`segments`], in one allocation of exactly their size.
#[must_use]
pub fn contiguous(prompt: &Prompt, wire: &dyn Wire, plan: &Plan, tail: &Bytes) -> Bytes {
    let (nodes, marks) = (prompt.nodes(), marks(wire, plan));
    let mut length = Length(0);
    assemble(&nodes, wire, &marks, &mut length);
    let mut body = Contiguous(Vec::with_capacity(length.0 + tail.len()));
    assemble(&nodes, wire, &marks, &mut body);
    body.0.extend_from_slice(tail);
    Bytes::from(body.0)
}

/// The segments without markers, up to the end of the last piece: what neither the plan nor the
/// parameters touch. Those of a prompt are a prefix of those of every prompt that was made from it by
/// appending.
#[must_use]
pub fn prefix(prompt: &Prompt, wire: &dyn Wire) -> Vec<Bytes> {
    let mut segments = Segments(Vec::with_capacity(prompt.len() * 2 + 24));
    join(&prompt.nodes(), wire.layout(), &[], &mut segments);
    segments.0
}

/// A marker, and the index of the piece that it goes into.
type Mark = (u32, Bytes);

fn marks(wire: &dyn Wire, plan: &Plan) -> Vec<Mark> {
    plan.marks()
        .iter()
        .filter_map(|mark| Some((mark.node, wire.marker(mark.time)?)))
        .collect()
}

/// What a walk over the pieces is for.
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

/// Everything but the tail.
fn assemble(nodes: &[&Node], wire: &dyn Wire, marks: &[Mark], sink: &mut impl Sink) {
    let layout = wire.layout();
    if join(nodes, layout, marks, sink) {
        sink.fixed("]");
    } else {
        // The tail begins with a comma.
        sink.fixed("\"");
        sink.fixed(layout.messages);
        sink.fixed("\":[]");
    }
}

/// Everything up to the end of the last piece; whether there was one.
fn join(nodes: &[&Node], layout: Layout, marks: &[Mark], sink: &mut impl Sink) -> bool {
    sink.fixed("{");
    let mut open: Option<Level> = None;
    let mut marks = marks.iter().peekable();
    for node in nodes {
        let mark = marks.next_if(|(index, _)| *index == node.depth);
        if node.bytes.is_empty() {
            continue;
        }
        open_array(open.replace(node.level), node.level, layout, sink);
        match (mark, node.mark_at) {
            (Some((_, marker)), Some(at)) => {
                sink.piece(&node.bytes, 0..at as usize);
                sink.piece(marker, 0..marker.len());
                sink.piece(&node.bytes, at as usize..node.bytes.len());
            }
            _ => sink.piece(&node.bytes, 0..node.bytes.len()),
        }
    }
    open.is_some()
}

/// What stands between a piece of one level and one of the next.
fn open_array(before: Option<Level>, level: Level, layout: Layout, sink: &mut impl Sink) {
    if before == Some(level) {
        return sink.fixed(",");
    }
    let name = array(level, layout);
    match before.map(|before| array(before, layout)) {
        Some(other) if other == name => return sink.fixed(","),
        Some(_) => sink.fixed("],\""),
        None => sink.fixed("\""),
    }
    sink.fixed(name);
    sink.fixed("\":[");
}

fn array(level: Level, layout: Layout) -> &'static str {
    match level {
        Level::Tool => layout.tools,
        Level::System => layout.system.unwrap_or(layout.messages),
        Level::Message => layout.messages,
    }
}

//! Builds nodes from the parser's events.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::anchors::Anchors;
use super::collection::Collection;
use super::source::{Position, Source, length_before_node, quoted_length};
use super::surrogates::SurrogatePairs;
use super::tag::TagType;
use super::{MAX_DEPTH, Node, NodeKind, scalar, syntax};
use crate::text::truncate;
use crate::{Problem, SourceSpan};

pub(super) fn parse(file: &str, text: &str) -> Result<Node, Vec<Problem>> {
    let source = Source::new(file, text);
    let (pairs, for_parser) = SurrogatePairs::extract(source.text);
    let mut builder = Builder {
        cursor: source.start(),
        source,
        pairs,
        open: Vec::new(),
        anchors: Anchors::default(),
        document: None,
        root: None,
        problems: Vec::new(),
    };
    if let Err(last) = builder.read(&for_parser) {
        builder.problems.push(last);
    }
    match builder.root {
        Some(root) if builder.problems.is_empty() => Ok(root),
        _ => {
            builder
                .problems
                .sort_by_key(|problem| problem.place.as_ref().map(|place| place.start));
            Err(builder.problems)
        }
    }
}

struct Builder<'t> {
    source: Source<'t>,
    pairs: SurrogatePairs,
    /// The end of the last event; the search for the indicator of a block text starts here.
    cursor: Position,
    /// The lists and mappings that are not closed yet, outermost first.
    open: Vec<Collection>,
    anchors: Anchors,
    document: Option<SourceSpan>,
    root: Option<Node>,
    problems: Vec<Problem>,
}

impl Builder<'_> {
    /// Parses the whole text. An error is a problem that ends the parsing.
    fn read(&mut self, text: &str) -> Result<(), Problem> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| syntax::problem(&self.source, &error))?;
            let is_implicit_start = event == Event::DocumentStart(false);
            self.take(event, span)?;
            // The span of a document without `---` is that of its first token, so its end must not move the
            // cursor.
            if !is_implicit_start {
                self.cursor = self.source.position(span.end);
            }
        }
        match &self.root {
            Some(_) => Ok(()),
            None => Err(self.empty_file()),
        }
    }

    fn empty_file(&self) -> Problem {
        let start = self.source.start();
        Problem::new("empty-file", "the file is empty")
            .at(&self.source.place(start, start.byte))
            .help("write a mapping (`key: value`)")
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.begin_document(span),
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(text, style, anchor, tag.as_deref(), span)
            }
            Event::Alias(id) => self.alias(id, span),
            Event::SequenceStart(anchor, tag) => {
                let start = self.start_of_list(span);
                let tag_type = self.tag_type(tag.as_deref(), span);
                self.open(Collection::list(start, anchor, tag_type))
            }
            Event::MappingStart(anchor, tag) => {
                let start = self.start_after_properties(span);
                let tag_type = self.tag_type(tag.as_deref(), span);
                self.open(Collection::map(start, anchor, tag_type))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
        }
    }

    fn begin_document(&mut self, span: Span) -> Result<(), Problem> {
        let start = self.source.position(span.start);
        let place = self
            .source
            .place(start, self.source.position(span.end).byte);
        match &self.document {
            None => {
                self.document = Some(place);
                Ok(())
            }
            Some(_) => Err(
                Problem::new("many-documents", "a second document begins here")
                    .at(&place)
                    .help("put it into a file of its own, or remove this line"),
            ),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Problem> {
        let place = self.place_of_scalar(&text, style, span);
        let end = self.source.end_of(&place);
        let is_read = style == ScalarStyle::DoubleQuoted;
        let written = (end - place.len, end);
        let text = self.pairs.restore(text, self.source.text, written, is_read);
        let text = &*text;
        let tag_type = self.tag_type(tag, span);
        let is_plain = style == ScalarStyle::Plain && tag.is_none();
        if self.open.last().is_some_and(Collection::expects_key) {
            if anchor != 0 {
                let kind = self.resolve_key(text, is_plain);
                self.anchors.close(
                    anchor,
                    &Node {
                        place: place.clone(),
                        kind,
                    },
                )?;
            }
            self.key(text.to_owned(), is_plain, place);
            return Ok(());
        }
        let is_default = is_plain && text.is_empty() && anchor == 0;
        if is_default && self.open.is_empty() {
            // A document without content is not a document; `read` reports it.
            return Ok(());
        }
        let tag_type = if tag_type.is_default() && !is_plain {
            TagType::Text
        } else {
            tag_type
        };
        let kind = self.resolve(text, tag_type, &place);
        let node = Node { place, kind };
        if anchor != 0 {
            self.anchors.close(anchor, &node)?;
        }
        self.attach(node);
        Ok(())
    }

    /// Resolves an anchored key, for aliases that refer to it.
    fn resolve_key(&self, text: &str, is_plain: bool) -> NodeKind {
        let as_text = || NodeKind::Text(text.to_owned());
        if is_plain {
            scalar::resolve(text).unwrap_or_else(|_| as_text())
        } else {
            as_text()
        }
    }

    fn resolve(&mut self, text: &str, tag_type: TagType, place: &SourceSpan) -> NodeKind {
        let problem = match tag_type.read(text) {
            Some(Ok(kind)) => return kind,
            Some(Err(scalar::TooLarge::Integer)) => Problem::new(
                "integer-too-large",
                format!("the integer {} does not fit into 64 bits", shortened(text)),
            )
            .at(place)
            .help("put it in quotes to keep every digit, as text"),
            Some(Err(scalar::TooLarge::Float)) => Problem::new(
                "number-too-large",
                format!(
                    "the number {} is larger than the largest float",
                    shortened(text)
                ),
            )
            .at(place)
            .help("put it in quotes to keep it as text, or write .inf"),
            None => tag_type.misplaced(place, &format!("`{}`", shortened(text))),
        };
        self.problems.push(problem);
        NodeKind::Null
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), Problem> {
        let start = self.source.position(span.start);
        let place = self
            .source
            .place(start, self.source.position(span.end).byte);
        let node = match self.anchors.resolve(id, self.open.len(), &place)? {
            Some(node) => node,
            None => {
                self.problems.push(
                    Problem::new(
                        "recursive-alias",
                        "this alias stands for something that it is part of",
                    )
                    .at(&place)
                    .help("write the value out, or move the anchor"),
                );
                Node {
                    place: place.clone(),
                    kind: NodeKind::Null,
                }
            }
        };
        let end = self.source.end_of(&place);
        if !self.open.last().is_some_and(Collection::expects_key) {
            self.attach_ending_at(node, end);
        } else if let Some(text) = text_of_key(&node) {
            self.key(text, false, place);
        } else {
            self.complex_key(&place);
        }
        Ok(())
    }

    fn open(&mut self, collection: Collection) -> Result<(), Problem> {
        if self.open.len() >= MAX_DEPTH {
            return Err(syntax::too_deep(&self.source, collection.start));
        }
        if collection.anchor != 0 {
            self.anchors.open(collection.anchor);
        }
        self.open.push(collection);
        Ok(())
    }

    fn close(&mut self, span: Span) -> Result<(), Problem> {
        let Some(collection) = self.open.pop() else {
            return Ok(());
        };
        let end = self.end_of_collection(&collection, span);
        let (anchor, tag_type) = (collection.anchor, collection.tag_type);
        let place = self.source.place(collection.start, end);
        let node = Node {
            place,
            kind: collection.finish(),
        };
        self.problems.extend(tag_type.on_collection(&node));
        if anchor != 0 {
            self.anchors.close(anchor, &node)?;
        }
        if self.open.last().is_some_and(Collection::expects_key) {
            self.complex_key(&node.head());
        } else {
            self.attach(node);
        }
        Ok(())
    }

    fn key(&mut self, text: String, is_plain: bool, place: SourceSpan) {
        let end = self.source.end_of(&place);
        if let Some(open) = self.open.last_mut() {
            open.end = open.end.max(end);
            self.problems.extend(open.key(text, is_plain, place));
        }
    }

    fn complex_key(&mut self, place: &SourceSpan) {
        let end = self.source.end_of(place);
        let is_template = self.source.text[..end - place.len].ends_with('{')
            && self.source.text[end - place.len..].starts_with('{');
        let help = if is_template {
            "if this is a template, put it in quotes: \"{{ … }}\""
        } else {
            "use a text as the key"
        };
        self.problems.push(
            Problem::new("complex-key", "a list or a mapping cannot be a key")
                .at(place)
                .help(help),
        );
        if let Some(open) = self.open.last_mut() {
            open.wrong_key();
        }
    }

    fn attach(&mut self, node: Node) {
        let end = self.source.end_of(&node.place);
        self.attach_ending_at(node, end);
    }

    fn attach_ending_at(&mut self, node: Node, end: usize) {
        match self.open.last_mut() {
            Some(open) => {
                open.end = open.end.max(end);
                self.problems.extend(open.value(node));
            }
            None => self.root = Some(node),
        }
    }

    fn tag_type(&mut self, tag: Option<&Tag>, span: Span) -> TagType {
        let Some(tag) = tag else {
            return TagType::Nothing;
        };
        TagType::from_tag(tag).unwrap_or_else(|problem| {
            let start = self.source.position(span.start);
            let node = self.start_after_properties(span).byte;
            let properties = self.source.between(start, node).trim_end().len();
            self.problems
                .push(problem.at(&self.source.place(start, start.byte + properties)));
            TagType::Nothing
        })
    }
}

/// Places of nodes, where the parser's spans are not exact.
impl Builder<'_> {
    /// The start of a node without an indicator of its own.
    fn start_after_properties(&self, span: Span) -> Position {
        let start = self.source.position(span.start);
        let written = self
            .source
            .between(start, self.source.position(span.end).byte);
        self.source.after(start, length_before_node(written, b""))
    }

    /// The start of a list. The span of a list that is not indented further than its key starts after its
    /// dash, so the dash is searched for from the cursor.
    fn start_of_list(&self, span: Span) -> Position {
        let before = length_before_node(self.source.rest(self.cursor), b":?");
        let dash = self.source.after(self.cursor, before);
        let is_value = self.open.last().is_some_and(Collection::is_map);
        if is_value && self.source.rest(dash).starts_with('-') {
            dash
        } else {
            self.start_after_properties(span)
        }
    }

    fn place_of_scalar(&self, text: &str, style: ScalarStyle, span: Span) -> SourceSpan {
        let end = self.source.position(span.end).byte;
        let start = self.start_after_properties(span);
        match style {
            ScalarStyle::Plain if text.is_empty() => {
                let colon = usize::from(self.source.rest(start).starts_with(':'));
                let start = self.source.after(start, colon);
                self.source.place(start, start.byte)
            }
            ScalarStyle::Plain => {
                let written = self.source.between(start, end);
                self.source
                    .place(start, start.byte + written.trim_end().len())
            }
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => self
                .source
                .place(start, start.byte + quoted_length(self.source.rest(start))),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let from = self.source.rest(self.cursor);
                let start = self
                    .source
                    .after(self.cursor, length_before_node(from, b":?-"));
                let written = self.source.between(start, end);
                self.source
                    .place(start, start.byte + written.trim_end().len())
            }
        }
    }

    fn end_of_collection(&self, collection: &Collection, span: Span) -> usize {
        let (opening, closing) = if collection.is_map() {
            ('{', '}')
        } else {
            ('[', ']')
        };
        let at = self.source.position(span.start);
        let is_closed = !span.is_empty()
            && self.source.rest(collection.start).starts_with(opening)
            && self.source.rest(at).starts_with(closing);
        if is_closed {
            at.byte + 1
        } else {
            collection.end
        }
    }
}

/// Returns the text of a scalar that an alias provides as a key.
fn text_of_key(node: &Node) -> Option<String> {
    match &node.kind {
        NodeKind::Text(text) => Some(text.clone()),
        NodeKind::List(_) | NodeKind::Map(_) => None,
        _ => Some(node.to_value().to_string()),
    }
}

/// Cuts `text` to a length that is suitable for a message.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 40;
    truncate(text, MAX_CHARS).into_owned()
}

//! Parses the events, matchers and groups of a `hooks:` section.

use std::sync::Arc;

use cachalot_core::config::Values;
use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::tree::{self, Node};
use cachalot_core::{Problem, SourceSpan};

use super::parser_context::ParserContext;
use super::tables::{GROUP, TOOL_GROUP};
use super::{Definition, HookEntry, OnError, action};
use crate::builtin::Builtins;
use crate::dialect::{Dialect, NamedEvent, UnsupportedEvent};
use crate::{Event, Matcher};

/// The parsed hooks of files.
#[derive(Debug, Clone, Default)]
pub struct ParsedHooks {
    /// The hooks, in order.
    pub entries: Vec<HookEntry>,
    /// Warnings: valid configuration that is ignored.
    pub warnings: Vec<Problem>,
}

/// Parses the `hooks:` section of one of our own files. `source` is its name for messages. An invalid
/// hook is reported as a problem and left out; a valid option that has no effect is reported as a
/// warning.
///
/// A single matcher or hook needs no list around it. A hook in the place of a matcher applies to all
/// tools. `dialect:` next to the events applies to all of them, `dialect:` in a hook to that hook.
pub fn read(
    node: &Node,
    source: &str,
    builtins: &Builtins,
    problems: &mut Vec<Problem>,
) -> ParsedHooks {
    let mut parser = HooksParser::new(source, builtins, false);
    parser.section(node, Dialect::DockerAgent);
    parser.read(problems)
}

/// State of the parser of one section.
pub(crate) struct HooksParser<'a> {
    source: Arc<str>,
    pub(crate) context: ParserContext<'a>,
    /// The parsed hooks.
    pub(crate) entries: Vec<HookEntry>,
}

/// Common settings of the hooks of a group.
#[derive(Clone)]
struct HookGroup {
    event_name: NamedEvent,
    dialect: Dialect,
    matcher: Matcher,
    sequential: bool,
}

impl<'a> HooksParser<'a> {
    /// Creates an empty state.
    pub(crate) fn new(source: &str, builtins: &'a Builtins, foreign: bool) -> Self {
        Self {
            source: source.into(),
            context: ParserContext {
                builtins,
                foreign,
                plugin: None,
                problems: Vec::new(),
                warnings: Vec::new(),
            },
            entries: Vec::new(),
        }
    }

    /// Returns the result. The errors are moved to `problems`.
    pub(crate) fn read(mut self, problems: &mut Vec<Problem>) -> ParsedHooks {
        problems.append(&mut self.context.problems);
        ParsedHooks {
            entries: self.entries,
            warnings: self.context.warnings,
        }
    }

    /// Parses events and their hooks.
    pub(crate) fn section(&mut self, node: &Node, dialect: Dialect) {
        if node.is_null() {
            return;
        }
        let Some(events) = node.as_map() else {
            let problem = node.wrong_type("`hooks`", "a mapping of events");
            self.context.problems.push(problem);
            return;
        };
        let Some(dialect) = self.resolve_dialect(node.get("dialect"), dialect) else {
            return;
        };
        let any_key = self.context.foreign;
        for event in events
            .iter()
            .filter(|event| any_key || event.key != "dialect")
        {
            if let Some(event_name) = self.event(event, dialect) {
                self.groups(&event.value, &event_name, dialect);
            }
        }
    }

    /// Returns the named dialect, or `around` if none is named. `None` if the name is unknown: the
    /// meaning of the hook is then unknown, too. Files of other runtimes cannot name a dialect.
    fn resolve_dialect(&mut self, named: Option<&Node>, around: Dialect) -> Option<Dialect> {
        match named.filter(|_| !self.context.foreign) {
            Some(named) => self.dialect(named),
            None => Some(around),
        }
    }

    /// Parses the name of a dialect; an unknown name is reported.
    pub(crate) fn dialect(&mut self, node: &Node) -> Option<Dialect> {
        let Some(name) = node.as_text() else {
            let problem = node.wrong_type("`dialect`", "text");
            self.context.problems.push(problem);
            return None;
        };
        let found = name.parse().ok();
        if found.is_none() {
            let names = Dialect::ALL.map(Dialect::name);
            self.context.problems.push(
                Problem::new("unknown-dialect", format!("there is no dialect `{name}`"))
                    .at(&node.place)
                    .help(did_you_mean(name, &names)),
            );
        }
        found
    }

    fn event(&mut self, event: &tree::MapEntry, dialect: Dialect) -> Option<NamedEvent> {
        let name = event.key.as_str();
        if let Some(event_name) = dialect.event(name) {
            return Some(event_name);
        }
        let mut unsupported = dialect.vocabulary().unsupported.iter();
        if let Some(unsupported) = unsupported.find(|unsupported| unsupported.name == name) {
            self.report_unsupported(unsupported, &event.key_place);
            return None;
        }
        let problem = Problem::new("unknown-event", format!("there is no event `{name}`"))
            .at(&event.key_place)
            .help(remedy(name, dialect));
        // In files of other runtimes, it may be a new event. A probable typo is still an error:
        // otherwise a guard would be lost.
        if is_typo(name, dialect) {
            self.context.problems.push(problem)
        } else {
            self.context.unsupported(problem)
        }
        None
    }

    /// Reports an event that only fires in another runtime: an error if its hooks are guards, because a
    /// mere warning could be overlooked.
    fn report_unsupported(&mut self, event: &UnsupportedEvent, place: &SourceSpan) {
        let name = event.name;
        let what = if event.guards {
            "and what its hooks guard would not be guarded"
        } else {
            "so that its hooks never run"
        };
        let nearest = match event.nearest {
            "" => "leave it out",
            nearest => nearest,
        };
        let message = format!("`{name}` never happens here, {what}");
        let problem = Problem::new("unsupported-event", message)
            .at(place)
            .help(nearest);
        if event.guards {
            self.context.problems.push(problem)
        } else {
            self.context.warnings.push(problem)
        }
    }

    /// Parses a list of matchers or hooks, or a single one.
    fn groups(&mut self, node: &Node, event_name: &NamedEvent, dialect: Dialect) {
        let group = HookGroup {
            event_name: *event_name,
            dialect,
            matcher: Matcher::ALL,
            sequential: false,
        };
        for item in items(node) {
            if item.get("hooks").is_some() {
                self.group(item, group.clone());
            } else {
                self.hook(item, &group);
            }
        }
    }

    /// Parses `{matcher, preempt_yolo, hooks}`.
    fn group(&mut self, node: &Node, mut group: HookGroup) {
        let read = self.context.problems.len();
        let Some(values) = GROUP.read(node, &mut self.context.problems) else {
            return;
        };
        let named = values.node("dialect");
        let around = group.dialect;
        group.dialect = match self.resolve_dialect(named, group.dialect) {
            Some(dialect) => dialect,
            None => return,
        };
        let is_foreign = group.dialect != Dialect::DockerAgent;
        if group.dialect != around {
            // A hook that is a guard by the name of its event stays a guard in another dialect.
            let guards = group.event_name.guards;
            group.event_name = group.dialect.named_event(group.event_name.event);
            group.event_name.guards |= guards;
        }
        let mut tables = vec![&GROUP];
        if (group.event_name.event.contract().tool_matched || is_foreign)
            && let Some(values) = TOOL_GROUP.read(node, &mut self.context.problems)
        {
            group.matcher = match self.matcher(values, group.dialect) {
                Some(matcher) => matcher,
                None => return,
            };
            tables.push(&TOOL_GROUP);
        }
        group.sequential = values.boolean("sequential").unwrap_or_default();
        self.context.report_undeclared(node, &tables, group.dialect);
        if self.context.problems.len() > read {
            return;
        }
        for hook in values.node("hooks").into_iter().flat_map(items) {
            self.hook(hook, &group);
        }
    }

    /// Parses the matcher; `None` if it is invalid: the hooks must not apply to all tools instead.
    fn matcher(&mut self, values: Values<'_>, dialect: Dialect) -> Option<Matcher> {
        let Some(node) = values.node("matcher") else {
            return Some(Matcher::ALL);
        };
        let Some(written) = node.as_text() else {
            let problem = node.wrong_type("`matcher`", "text");
            self.context.problems.push(problem);
            return None;
        };
        let matcher = dialect.matcher(written);
        if let Some((rule, tool)) = dialect.rule_in_matcher(written) {
            let help = if dialect.vocabulary().options_of_claude {
                format!("write `matcher: {tool}`, and `if: \"{rule}\"` in the hook")
            } else {
                format!("write `{tool}`, and let the hook look at the arguments")
            };
            let message = format!(
                "`{rule}` matches no tool: a matcher is about names of tools, not about arguments"
            );
            let problem = Problem::warning("void-matcher", message).at(&node.place);
            self.context.warnings.push(problem.help(help));
        }
        if let Err(error) = &matcher {
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default().trim();
            let message = format!(
                "`{written}` is no regular expression: {}",
                why.strip_prefix("error: ").unwrap_or(why)
            );
            let help = "write names of tools with `|` between them, or `*` for all";
            let problem = Problem::new("bad-matcher", message).at(&node.place);
            self.context.problems.push(problem.help(help));
        }
        matcher.ok()
    }

    fn hook(&mut self, node: &Node, group: &HookGroup) {
        let named = node.get("dialect").filter(|named| !named.is_null());
        let Some(dialect) = self.resolve_dialect(named, group.dialect) else {
            return;
        };
        let mut event_name = if dialect == group.dialect {
            group.event_name
        } else {
            dialect.named_event(group.event_name.event)
        };
        event_name.guards |= group.event_name.guards;
        let read = self.context.problems.len();
        let definition = action::definition(&mut self.context, node, event_name.event, dialect);
        // After an error, no part of the hook may run.
        if let Some(definition) = definition.filter(|_| self.context.problems.len() == read) {
            self.add(definition, &event_name, dialect, group, node.head());
        }
    }

    fn add(
        &mut self,
        mut definition: Definition,
        event_name: &NamedEvent,
        dialect: Dialect,
        group: &HookGroup,
        place: SourceSpan,
    ) {
        definition.sequential |= group.sequential;
        if event_name.guards {
            definition.on_error = Some(OnError::Block);
        }
        self.entries.push(HookEntry {
            event: event_name.event,
            event_name: event_name.name.into(),
            matcher: group.matcher.clone(),
            only: group.event_name.only,
            definition,
            dialect,
            source: Arc::clone(&self.source),
            place: Some(place),
        });
    }
}

fn items(node: &Node) -> &[Node] {
    match node.as_list() {
        Some(items) => items,
        None if node.is_null() => &[],
        None => std::slice::from_ref(node),
    }
}

/// True if a name is probably a typo of an event of the dialect.
fn is_typo(name: &str, dialect: Dialect) -> bool {
    let vocabulary = dialect.vocabulary();
    let known = vocabulary.events.iter().map(|event_name| event_name.name);
    let known = known.chain(vocabulary.unsupported.iter().map(|event| event.name));
    nearest(name, known).is_some_and(|near| {
        let (short, long) = (name.len().min(near.len()), name.len().max(near.len()));
        // `PreToolUse` and `PostToolUse` are similar, but both valid.
        long - short <= 2
    })
}

/// Suggests the nearest event, or the dialect that has the event.
fn remedy(name: &str, dialect: Dialect) -> String {
    let other = Dialect::ALL
        .into_iter()
        .filter(|other| *other != dialect)
        .find_map(|other| Some((other, other.event(name)?.event)));
    if let Some((other, event)) = other {
        return format!(
            "`dialect: {other}` beside the events lets them be {other}'s; here it is called `{}`",
            dialect.named_event(event).name
        );
    }
    let known = dialect
        .vocabulary()
        .events
        .iter()
        .map(|event_name| event_name.name);
    let candidates: Vec<&str> = known.chain(Event::all().map(Event::name)).collect();
    match nearest(name, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => did_you_mean(name, &candidates),
    }
}

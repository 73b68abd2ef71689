//! The check that a request continues an earlier one, and namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::Digest;
use cachalot_model::wire::{Rendered, Wire};
use cachalot_model::{Format, Message, OutputFormat, Parameters, RequestedReasoning, ToolChoice};
use cachalot_prompt::{
    BreakCause, Level, Namespace, NodeId, PIECES, PrefixBreak, Prompt, SentPrompt, Session,
    SessionFilter, Sessions, extends,
};
use cachalot_store::Record;
use proptest::prelude::*;
use serde_json::json;

use crate::{
    conversation, frozen, head, in_process, run, said, small_wire::SmallWire, tree, wires,
};

const WIRE: SmallWire = SmallWire { apart: true };

fn parameters() -> Parameters {
    Parameters {
        model: "m".to_owned(),
        ..Parameters::default()
    }
}

fn sent(prompt: &Prompt, parameters: &Parameters) -> SentPrompt {
    SentPrompt {
        prompt: prompt.clone(),
        namespace: Namespace::new(Format::Messages, parameters),
    }
}

fn broken(previous: &Prompt, next: &Prompt) -> PrefixBreak {
    extends(&sent(previous, &parameters()), &sent(next, &parameters())).unwrap_err()
}

fn pieces(texts: &[&str]) -> Vec<Rendered> {
    texts.iter().map(|text| WIRE.system(text)).collect()
}

#[test]
fn prompt_extends_itself_and_its_prefixes() {
    let prompt = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let longer = said(&prompt, &WIRE, Message::assistant("b"));
    let parameters = parameters();
    for (previous, next) in [
        (&prompt, &prompt),
        (&prompt, &longer),
        (&Prompt::default(), &prompt),
        (&frozen(&WIRE), &longer),
    ] {
        extends(&sent(previous, &parameters), &sent(next, &parameters)).unwrap();
    }
}

#[test]
fn break_has_level_index_and_byte() {
    let tools = pieces(&["t1", "t2"]);
    let one = Prompt::begin(&tools, &pieces(&["one", "two"]));
    let other = Prompt::begin(&tools, &pieces(&["one", "tvo"]));
    let found = broken(&one, &other);
    assert_eq!((found.level, found.index), (Level::System, 1));
    // {"system":"tvo"}: the byte behind the first letter.
    assert_eq!(found.cause, BreakCause::Changed { offset: 12 });
    assert_eq!(
        found.to_string(),
        "the prefix breaks at system[1]: its bytes differ from byte 12 on"
    );

    let late = Prompt::begin(&pieces(&["t1", "t2", "t3"]), &pieces(&["one", "two"]));
    let found = broken(&one, &late);
    assert_eq!((found.level, found.index), (Level::Tool, 2));
    assert_eq!(found.cause, BreakCause::Inserted);

    let found = broken(&late, &one);
    assert_eq!((found.level, found.index), (Level::Tool, 2));
    assert_eq!(found.cause, BreakCause::Missing);

    let longer = said(&one, &WIRE, Message::user("a"));
    let found = broken(&said(&longer, &WIRE, Message::assistant("b")), &longer);
    assert_eq!((found.level, found.index), (Level::Message, 1));
    assert_eq!(found.cause, BreakCause::Missing);
}

#[test]
fn unsent_message_is_no_break() {
    let thought = conversation::reasoning(Format::Messages, "hm");
    let thought = Message::new(cachalot_model::Role::Assistant, vec![thought]);
    let plain = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let with = said(&frozen(&WIRE), &WIRE, thought);
    let with = said(&with, &WIRE, Message::user("a"));
    assert_ne!(plain.tip(), with.tip());
    extends(&sent(&plain, &parameters()), &sent(&with, &parameters())).unwrap();
    extends(&sent(&with, &parameters()), &sent(&plain, &parameters())).unwrap();
}

#[test]
fn first_break_is_reported() {
    let one = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let other = said(&frozen(&WIRE), &WIRE, Message::user("b"));
    let changed = Parameters {
        model: "n".to_owned(),
        ..parameters()
    };
    let found = extends(&sent(&one, &parameters()), &sent(&other, &changed)).unwrap_err();
    assert_eq!((found.level, found.index), (Level::Tool, 0));
    assert_eq!(
        found.to_string(),
        "the prefix breaks at tools[0]: the parameter `model` changed"
    );
    // A choice of tools costs the messages only, but all of them.
    let other = said(&one, &WIRE, Message::assistant("b"));
    let changed = Parameters {
        tool_choice: Some(ToolChoice::Any),
        ..parameters()
    };
    let found = extends(&sent(&one, &parameters()), &sent(&other, &changed)).unwrap_err();
    assert_eq!((found.level, found.index), (Level::Message, 0));
}

/// A change of one parameter, and the level that it costs in the format of Anthropic and of `OpenAI`.
type Change = (
    &'static str,
    fn(&mut Parameters),
    Option<Level>,
    Option<Level>,
);

const CHANGES: [Change; 20] = [
    ("model", |p| p.model = "n".into(), TOOLS, TOOLS),
    ("", |p| p.max_output_tokens = Some(5), None, None),
    ("", |p| p.temperature = Some(0.5), None, None),
    ("", |p| p.top_p = Some(0.5), None, None),
    ("", |p| p.stop = vec!["x".into()], None, None),
    (
        "tool_choice",
        |p| p.tool_choice = Some(ToolChoice::None),
        MESSAGES,
        None,
    ),
    (
        "parallel_tool_calls",
        |p| p.parallel_tool_calls = Some(false),
        MESSAGES,
        TOOLS,
    ),
    (
        "reasoning",
        |p| p.reasoning = Some(RequestedReasoning::Budget(9)),
        TOOLS,
        TOOLS,
    ),
    (
        "output",
        |p| {
            p.output = Some(OutputFormat {
                name: "n".into(),
                schema: json!({}),
                strict: true,
            });
        },
        TOOLS,
        TOOLS,
    ),
    ("cache_key", |p| p.cache_key = Some("k".into()), None, TOOLS),
    ("extra.odd", |p| set(p, "odd", json!(1)), TOOLS, TOOLS),
    ("extra.model", |p| set(p, "model", json!("n")), TOOLS, TOOLS),
    (
        "extra.speed",
        |p| set(p, "speed", json!("fast")),
        SYSTEM,
        TOOLS,
    ),
    (
        "extra.thinking",
        |p| set(p, "thinking", json!({"type": "adaptive"})),
        TOOLS,
        TOOLS,
    ),
    (
        "extra.tool_choice",
        |p| set(p, "tool_choice", json!("x")),
        MESSAGES,
        None,
    ),
    ("", |p| set(p, "metadata", json!({"a": 1})), None, None),
    ("", |p| set(p, "user", json!("u")), None, None),
    ("", |p| set(p, "max_tokens", json!(5)), None, None),
    ("", |p| set(p, "stream_options", json!({})), None, None),
    ("", |p| set(p, "seed", json!(7)), None, None),
];

const TOOLS: Option<Level> = Some(Level::Tool);
const SYSTEM: Option<Level> = Some(Level::System);
const MESSAGES: Option<Level> = Some(Level::Message);

fn set(parameters: &mut Parameters, name: &str, value: serde_json::Value) {
    parameters.extra.insert(name.to_owned(), value);
}

#[test]
fn every_parameter_breaks_the_documented_level() {
    for (name, change, anthropic, openai) in CHANGES {
        let mut changed = parameters();
        change(&mut changed);
        let formats = [
            (Format::Messages, anthropic),
            (Format::Chat, openai),
            (Format::Responses, openai),
        ];
        for (format, level) in formats {
            let before = Namespace::new(format, &parameters());
            let after = Namespace::new(format, &changed);
            let field = before.difference(&after);
            assert_eq!(field.map(|field| field.level), level, "{name} {format:?}");
            // Coming and going are the same.
            assert_eq!(
                after.difference(&before).map(|field| field.level),
                level,
                "{name} {format:?}"
            );
            if let Some(field) = field {
                assert_eq!(field.name, name);
            }
            for at in [Level::Tool, Level::System, Level::Message] {
                let same = before.fingerprint(at) == after.fingerprint(at);
                assert_eq!(same, level.is_none_or(|level| at < level), "{name} {at}");
            }
        }
    }
}

#[test]
fn key_order_is_insignificant_and_the_format_is_not() {
    let (mut one, mut other) = (parameters(), parameters());
    set(&mut one, "a", json!({"x": 1, "y": 2}));
    set(&mut one, "b", json!(1));
    set(&mut other, "b", json!(1));
    set(&mut other, "a", json!({"y": 2, "x": 1}));
    let of = |parameters| Namespace::new(Format::Chat, parameters);
    assert_eq!(of(&one), of(&other));
    assert_ne!(
        Namespace::new(Format::Chat, &one),
        Namespace::new(Format::Responses, &one)
    );
    let text = serde_json::to_string(&of(&one)).unwrap();
    assert_eq!(serde_json::from_str::<Namespace>(&text).unwrap(), of(&one));
}

/// A change of a conversation between two requests.
#[derive(Debug, Clone)]
enum Step {
    /// The user, the model or tools say something.
    Say { branch: usize, message: Message },
    /// A hook adds something to what is sent next, and that is noted.
    Add { branch: usize, text: String },
    /// Several messages in one step.
    SayAll {
        branch: usize,
        messages: Vec<Message>,
    },
    /// A conversation goes on from here beside this one.
    Fork { branch: usize, text: String },
    /// It is opened again, as by another process.
    Resume { branch: usize },
    /// Its messages go, and a summary takes their place.
    Restart { branch: usize, summary: String },
}

fn step() -> impl Strategy<Value = Step> {
    let text = || conversation::text();
    (0_usize..6).prop_flat_map(move |branch| {
        prop_oneof![
            6 => conversation::message().prop_map(move |message| Step::Say { branch, message }),
            2 => text().prop_map(move |text| Step::Add { branch, text }),
            1 => conversation::messages(4)
                .prop_map(move |messages| Step::SayAll { branch, messages }),
            3 => text().prop_map(move |text| Step::Fork { branch, text }),
            2 => Just(Step::Resume { branch }),
            1 => text().prop_map(move |summary| Step::Restart { branch, summary }),
        ]
    })
}

/// A conversation, and what of it was sent last.
struct Branch {
    session: Session,
    sent: Vec<u8>,
}

struct ModelState {
    wire: &'static dyn Wire,
    sessions: Sessions,
    branches: Vec<Branch>,
}

impl ModelState {
    fn body(&self, prompt: &Prompt) -> Vec<u8> {
        cachalot_prompt::prefix(prompt, self.wire).concat()
    }

    /// The request of a branch now begins with the last one, byte for byte.
    fn send(&mut self, branch: usize) {
        let body = self.body(&self.branches[branch].session.prompt);
        let sent = &mut self.branches[branch].sent;
        assert!(body.starts_with(sent), "the prefix breaks");
        *sent = body;
    }

    async fn say(&mut self, branch: usize, messages: &[Message]) {
        let rendered = messages.iter().map(|message| {
            let pieces = self.wire.message(message).unwrap();
            (Arc::new(message.clone()), pieces)
        });
        let rendered: Vec<_> = rendered.collect();
        let session = &mut self.branches[branch].session;
        let notes = session.head.notes.clone();
        session.append_all(&rendered, notes).await.unwrap();
    }

    async fn take(&mut self, step: Step) {
        let count = self.branches.len();
        let branch = match step {
            Step::Say { branch, message } => {
                self.say(branch % count, &[message]).await;
                branch % count
            }
            Step::Add { branch, text } => {
                let mut message = Message::user(text);
                message
                    .extra
                    .insert("@added".to_owned(), json!({"by": "a hook"}));
                self.say(branch % count, &[message]).await;
                branch % count
            }
            Step::SayAll { branch, messages } => {
                self.say(branch % count, &messages).await;
                branch % count
            }
            Step::Fork { branch, text } => {
                self.fork(branch % count).await;
                self.say(count, &[Message::user(text)]).await;
                self.send(count);
                branch % count
            }
            Step::Resume { branch } => {
                let branch = &mut self.branches[branch % count].session;
                let name = branch.head.id.clone();
                *branch = self.sessions.open(&name).await.unwrap().unwrap();
                return self.send(self.named(&name));
            }
            Step::Restart { branch, summary } => {
                let branch = branch % count;
                let session = &mut self.branches[branch].session;
                session.restart(serde_json::Map::new()).await.unwrap();
                // What comes before the messages was sent, and stays.
                let kept = self.body(&self.branches[branch].session.prompt.frozen());
                assert!(self.branches[branch].sent.starts_with(&kept));
                self.branches[branch].sent = kept;
                self.say(branch, &[Message::user(summary)]).await;
                branch
            }
        };
        self.send(branch);
    }

    fn named(&self, name: &str) -> usize {
        let mut branches = self.branches.iter();
        branches
            .position(|branch| branch.session.head.id == name)
            .unwrap()
    }

    async fn fork(&mut self, of: usize) {
        let parent = &self.branches[of];
        let mut head = head(&format!("s{}", self.branches.len()));
        head.parent = Some(parent.session.head.id.clone());
        let (prompt, sent) = (parent.session.prompt.clone(), parent.sent.clone());
        let session = self.sessions.create_from(head, prompt).await.unwrap();
        self.branches.push(Branch { session, sent });
    }
}

/// The name of the prefix that ends with a stored piece, and its bytes, by the records alone.
fn unpacked(records: &[Record]) -> BTreeMap<NodeId, u64> {
    let by_key: BTreeMap<&str, &Record> = records
        .iter()
        .map(|record| (record.key.strip_prefix("piece/").unwrap(), record))
        .collect();
    fn id(by_key: &BTreeMap<&str, &Record>, record: &Record) -> (NodeId, u64) {
        let value = &record.value;
        let (level, flags, mut rest) = (value[1], value[2], &value[3..]);
        let mut hashed = vec![0; 32];
        if flags & 1 != 0 {
            let (parent, behind) = rest.split_at(32);
            let parent = Digest(parent.try_into().unwrap()).to_hex();
            hashed = id(by_key, by_key[&*parent]).0.0.as_bytes().to_vec();
            rest = behind;
        }
        rest = &rest[if flags & 2 == 0 { 0 } else { 4 }..];
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap());
        hashed.push(level);
        hashed.extend(&rest[8..][..usize::try_from(length).unwrap()]);
        (NodeId(Digest::sha256(&hashed)), length)
    }
    records.iter().map(|record| id(&by_key, record)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever happens to conversations, what was sent is what the next request begins with, and the
    /// memory has every prefix once.
    #[test]
    fn sent_prefixes_are_kept_and_stored_once(
        steps in proptest::collection::vec(step(), 1..40),
        wire in 0..wires().len(),
    ) {
        run(async {
            let (sessions, memory) = in_process();
            let wire = wires()[wire];
            let session = sessions.create_from(head("s0"), frozen(wire)).await.unwrap();
            let branches = vec![Branch { session, sent: Vec::new() }];
            let mut world = ModelState { wire, sessions, branches };
            world.send(0);
            for step in steps {
                world.take(step).await;
            }
            let prompts = world.branches.iter();
            let prompts: Vec<(String, Prompt)> = prompts
                .map(|branch| (branch.session.head.id.clone(), branch.session.prompt.clone()))
                .collect();
            let tree = world.sessions.tree(&SessionFilter::default()).await.unwrap();
            assert!(tree.unreadable.is_empty());
            tree::is_that_of(&tree, &prompts);
            let stored = unpacked(&tree::records(&*memory, PIECES).await);
            assert_eq!(tree.sharing.pieces, stored.len() as u64);
            assert_eq!(tree.sharing.stored_bytes, stored.values().sum::<u64>());
        });
    }
}

proptest! {
    /// The check says what a comparison of the bytes says.
    #[test]
    fn continuation_check_agrees_with_the_bytes(
        common in conversation::messages(4),
        ours in conversation::messages(3),
        theirs in conversation::messages(3),
    ) {
        for wire in wires() {
            let build = |more: &[Message]| {
                let all = common.iter().chain(more);
                all.fold(frozen(wire), |prompt, message| said(&prompt, wire, message.clone()))
            };
            let (one, other) = (build(&ours), build(&theirs));
            let bytes = |prompt: &Prompt| {
                // With what separates pieces, so that a piece that is a prefix of another one counts
                // as another.
                let nodes = prompt.nodes();
                let sent = nodes.iter().filter(|node| !node.bytes.is_empty());
                sent.map(|node| (node.level, node.bytes.clone())).collect::<Vec<_>>()
            };
            let holds = bytes(&other).starts_with(&bytes(&one));
            let checked = extends(&sent(&one, &parameters()), &sent(&other, &parameters()));
            prop_assert_eq!(checked.is_ok(), holds);
        }
    }
}

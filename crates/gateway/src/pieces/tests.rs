//! What is known of pieces changes no key, no judgment and no diagnosis: sequences of edited bodies are parsed by their
//! pieces and as whole texts.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{DigestKey, SecretSet, json};
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::log::{
    LiveAnalyzer, LiveAnswer, LiveBody, LivePlacement, LiveRequest, OpenLimits,
};
use proptest::prelude::*;

use super::*;
use crate::parsed_body::ParsedBody;

/// Items of lists, as clients write them. `@` is replaced by a number, `$` by a long text.
const ITEMS: [&str; 40] = [
    r#"{"role":"user","content":"$ @"}"#,
    r#"{"role":"assistant","content":"$ answer @"}"#,
    r#"{"role": "user", "content": [{"type": "text", "text": "$ @"}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":"$ @","cache_control":{"type":"ephemeral"}}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":"@"},{"type":"text","text":"$","cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"$","signature":"s@"},{"type":"tool_use","id":"toolu_@","name":"f","input":{"b":1,"a":"$"}}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_@","content":[{"type":"text","text":"$"}]}]}"#,
    r#"{"role":"system","content":"x-anthropic-billing-header: cc_version=2; cch=ab@;"}"#,
    r#"{"role":"developer","content":"$"}"#,
    r#"{"role":"tool","tool_call_id":"call_@","content":"$ https://a.example/@"}"#,
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_@","type":"function","function":{"name":"f","arguments":"{\"x\": 1.0}"}}]}"#,
    r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,$"}}]}"#,
    r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.example/$.png"}}]}"#,
    r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"$"}}]}"#,
    r#"{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_@"}}]}"#,
    r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"$","format":"wav"}}]}"#,
    r#"{"role":"user","content":[{"type":"brand_new","text":"$"}]}"#,
    r#"{"role":"cache","content":"tag=@"}"#,
    r#"{"role":"system","content":"fileid://file-$"}"#,
    r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"$ @"}]}"#,
    r#"{"type":"function_call","id":"fc_@","call_id":"call_@","name":"f","arguments":"{}"}"#,
    r#"{"type":"function_call_output","call_id":"call_@","output":"$"}"#,
    r#"{"type":"reasoning","id":"rs_@","summary":[],"encrypted_content":"$"}"#,
    r#"{"type":"item_reference","id":"msg_@"}"#,
    r#"{"type":"user_input","content":[{"type":"text","text":"$"}]}"#,
    r#"{"role":"user","parts":[{"text":"$ @"}]}"#,
    r#"{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"$"}}]}"#,
    r#"{"role":"user","parts":[{"fileData":{"fileUri":"files/@","mimeType":"text/plain"}}]}"#,
    r#"{"type":"function","function":{"name":"f@","parameters":{"type":"object","properties":{"b":{"type":"string"},"a":{}}}}}"#,
    r#"{"name":"f@","description":"$","input_schema":{"type":"object","properties":{"z":{},"a":{"type":"string"}}}}"#,
    r#"{"type":"function","name":"f@","parameters":{"type":"object"},"strict":false}"#,
    r#"{"type":"web_search"}"#,
    r#"{"name":"f@","input_schema":{},"defer_loading":true,"cache_control":{"type":"ephemeral"}}"#,
    r#"{"functionDeclarations":[{"name":"f@","parameters":{"type":"OBJECT"}}]}"#,
    r#"{"type":"text","text":"$ @","cache_control":{"type":"ephemeral"}}"#,
    r#"{"type":"text","text":"x-anthropic-billing-header: cc_version=2.@; cc_entrypoint=cli;"}"#,
    r#"{"type":"text","text":"1.@e0 \u00e9 \ud83d\udc0b \/ \" \\ $","number":1.@0e2,"cache_control":{"type":"ephemeral","ttl":"12h"}}"#,
    r#"{ "b" : 1 , "a" : [ ] , "c" : { } , "role" : "user" , "content" : "" }"#,
    r#"{"role":"user","content":"x","content":"@"}"#,
    r#"{"role":"user","content":"lone \ud83d @"}"#,
];

/// Members beside the lists.
const MEMBERS: [&str; 24] = [
    r#""model":"gpt-5.5""#,
    r#""model":"claude-sonnet-5-5""#,
    r#""model" : "o4-mini-deep-research""#,
    r#""temperature":0"#,
    r#""temperature": 0.0"#,
    r#""seed":@"#,
    r#""stream":true"#,
    r#""stream":1"#,
    r#""stream_options":{"include_usage":true}"#,
    r#""store":false"#,
    r#""n":2"#,
    r#""max_tokens":1@"#,
    r#""max_tokens":0"#,
    r#""metadata":{"user_id":"{\"session_id\":\"s@\"}"}"#,
    r#""thinking":{"type":"enabled","budget_tokens":1000}"#,
    r#""instructions":"$""#,
    r#""response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"b":{},"a":{}}}}}"#,
    r#""unknown_@":1"#,
    r#""previous_response_id":"resp_@""#,
    r#""diagnostics":{"previous_message_id":"msg_@"}"#,
    r#""cache_control":{"type":"ephemeral"}"#,
    r#""prompt_cache_key":"@""#,
    r#""generationConfig":{"temperature":0,"maxOutputTokens":5}"#,
    r#""service_tier":"default""#,
];

const ENDPOINTS: [&str; 7] = [
    "chat",
    "responses",
    "messages",
    "gemini",
    "interactions",
    "count_tokens",
    "input_tokens",
];

/// The items of lists and the other members of a body; the numbers replace `@`.
#[derive(Debug, Clone)]
struct Draft {
    lists: Vec<(&'static str, Vec<(usize, u8)>)>,
    members: Vec<(usize, u8)>,
    spacing: u8,
}

#[derive(Debug, Clone)]
enum Edit {
    Append(usize, (usize, u8)),
    Insert(usize, usize, (usize, u8)),
    Change(usize, usize, (usize, u8)),
    Delete(usize, usize),
    Swap(usize, usize),
    Member(usize, (usize, u8)),
    Spacing(u8),
    /// Nothing: the same request again.
    Repeat,
}

impl Draft {
    fn apply(&mut self, edit: &Edit) {
        match *edit {
            Edit::Append(at, item) => self.list(at).push(item),
            Edit::Insert(at, place, item) => {
                let list = self.list(at);
                let place = place % (list.len() + 1);
                list.insert(place, item);
            }
            Edit::Change(at, place, item) => {
                let list = self.list(at);
                if !list.is_empty() {
                    let place = place % list.len();
                    list[place] = item;
                }
            }
            Edit::Delete(at, place) => {
                let list = self.list(at);
                if !list.is_empty() {
                    let place = place % list.len();
                    list.remove(place);
                }
            }
            Edit::Swap(at, place) => {
                let list = self.list(at);
                if list.len() > 1 {
                    let place = place % (list.len() - 1);
                    list.swap(place, place + 1);
                }
            }
            Edit::Member(place, member) => {
                let place = place % (self.members.len() + 1);
                self.members.insert(place, member);
            }
            Edit::Spacing(spacing) => self.spacing = spacing,
            Edit::Repeat => {}
        }
    }

    fn list(&mut self, at: usize) -> &mut Vec<(usize, u8)> {
        let count = self.lists.len();
        &mut self.lists[at % count].1
    }

    fn text(&self) -> String {
        let gap = [" ", "", "\n  ", "\t"][usize::from(self.spacing) % 4];
        let fill = |template: &str, number: u8| {
            let long = format!(
                "text {}",
                "of several words\\n".repeat(usize::from(number % 5) * 8)
            );
            template
                .replace('@', &number.to_string())
                .replace('$', &long)
        };
        let lists = self.lists.iter().map(|(name, items)| {
            let items: Vec<String> = items
                .iter()
                .map(|(item, number)| fill(ITEMS[item % ITEMS.len()], *number))
                .collect();
            let between = format!(",{gap}");
            format!("\"{name}\":{gap}[{gap}{}{gap}]", items.join(&between))
        });
        let members = self.members.iter();
        let members =
            members.map(|(member, number)| fill(MEMBERS[member % MEMBERS.len()], *number));
        let all: Vec<String> = members.chain(lists).collect();
        format!("{{{gap}{}{gap}}}", all.join(","))
    }
}

fn item() -> impl Strategy<Value = (usize, u8)> {
    // Usual messages are more frequent.
    prop_oneof![
        3 => (0_usize..12, any::<u8>()),
        2 => (0..ITEMS.len(), any::<u8>()),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = || any::<usize>();
    prop_oneof![
        6 => (place(), item()).prop_map(|(list, item)| Edit::Append(list, item)),
        1 => (place(), place(), item()).prop_map(|(list, at, item)| Edit::Insert(list, at, item)),
        2 => (place(), place(), item()).prop_map(|(list, at, item)| Edit::Change(list, at, item)),
        1 => (place(), place()).prop_map(|(list, at)| Edit::Delete(list, at)),
        1 => (place(), place()).prop_map(|(list, at)| Edit::Swap(list, at)),
        1 => (place(), (0..MEMBERS.len(), any::<u8>())).prop_map(|(at, member)| Edit::Member(at, member)),
        1 => any::<u8>().prop_map(Edit::Spacing),
        1 => Just(Edit::Repeat),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let lists = prop::sample::subsequence(
        vec!["messages", "input", "contents", "system", "tools"],
        1..3,
    );
    let members = prop::collection::vec((0..MEMBERS.len(), any::<u8>()), 0..5);
    let items = prop::collection::vec(prop::collection::vec(item(), 0..5), 2);
    (lists.prop_shuffle(), members, items, any::<u8>()).prop_map(
        |(lists, members, items, spacing)| Draft {
            lists: lists.into_iter().zip(items).collect(),
            members,
            spacing,
        },
    )
}

/// Compares the parsed forms of a text.
fn compare(endpoint: Endpoint, text: &Bytes, pieces: &ParsedBody, with_price: bool) {
    let whole = ParsedBody::of(endpoint, text, Arc::default());
    let shown = String::from_utf8_lossy(text);
    let keys = (
        whole.canonical.as_ref().unwrap(),
        pieces.canonical.as_ref().unwrap(),
    );
    assert_eq!(keys.0.value, keys.1.value, "{shown}");
    assert_eq!(keys.0.order, keys.1.order, "{shown}");
    assert_eq!(whole.cacheability, pieces.cacheability, "{shown}");
    assert_eq!(whole.form_members, pieces.form_members, "{shown}");
    assert_eq!(
        whole.object_reference(),
        pieces.object_reference(),
        "{shown}"
    );
    if with_price {
        assert_eq!(whole.extra_charge(), pieces.extra_charge(), "{shown}");
        assert_eq!(whole.has_media(), pieces.has_media(), "{shown}");
        let longest = |parsed: &ParsedBody| endpoint.writes_for_12h(parsed.priced());
        assert_eq!(longest(&whole), longest(pieces), "{shown}");
    }
    assert_eq!(whole.beginning(), pieces.beginning(), "{shown}");
    let (body, outline) = (whole.value(), &pieces.outline);
    assert_eq!(endpoint.max_output(body), endpoint.max_output(outline));
    assert_eq!(endpoint.answers(body), endpoint.answers(outline));
    assert_eq!(body, pieces.value());
}

/// Parses the bodies of one client one after the other.
struct Client {
    endpoint: Endpoint,
    index: PieceIndex,
    analyzers: [LiveAnalyzer; 2],
    /// Numbers of bodies that were split, and of those that were not.
    counts: [usize; 2],
}

impl Client {
    fn new(endpoint: Endpoint) -> Self {
        let analyzer = || {
            let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([1; 32])));
            let catalog = Arc::new(Catalog::built_in());
            LiveAnalyzer::new(catalog, secret_set, OpenLimits::default(), "test")
        };
        Self {
            endpoint,
            index: PieceIndex::default(),
            analyzers: [analyzer(), analyzer()],
            counts: [0; 2],
        }
    }

    fn take(&mut self, text: &str, with_price: bool, usage: u8) {
        let text = Bytes::from(text.to_owned());
        let recent = self.index.recent("client", self.endpoint);
        let split = Split::read(&text, &recent);
        let pieces = split.and_then(|split| {
            assert_eq!(split.values, json::values(&text));
            ParsedBody::of_pieces(self.endpoint, &split, &Arc::default(), with_price)
        });
        let Some(pieces) = pieces else {
            self.counts[1] += 1;
            return;
        };
        self.counts[0] += 1;
        compare(self.endpoint, &text, &pieces, with_price);
        let body = &pieces.pieces.as_ref().unwrap().body;
        self.index.keep("client", self.endpoint, body);
        if body.has_known_lists() {
            let whole = self.analyze(0, LiveBody::Text(&text), usage);
            let parts = body.with_parts(|parts| self.analyze(1, LiveBody::Parts(parts), usage));
            assert_eq!(whole, parts, "{}", String::from_utf8_lossy(&text));
        }
    }

    fn analyze(&mut self, which: usize, body: LiveBody<'_>, usage: u8) -> Option<String> {
        let request = LiveRequest {
            tenant: "client",
            session: None,
            body,
            at: 1_800_000_000_000,
        };
        let read = u64::from(usage) * 100;
        let answer = LiveAnswer {
            usage: (!usage.is_multiple_of(3)).then(|| Usage {
                uncached_input: 20_000,
                cache_read: read,
                ..Usage::default()
            }),
            ..LiveAnswer::default()
        };
        let analyzer = &mut self.analyzers[which];
        let last = analyzer.last_break(request).ok().flatten().cloned();
        let LivePlacement {
            conversation,
            prefix,
            diagnosis,
            ..
        } = analyzer.take(request, answer).ok()?;
        Some(format!("{conversation} {prefix} {diagnosis:?} {last:?}"))
    }
}

fn endpoint(number: usize) -> Endpoint {
    Endpoint::of_name(ENDPOINTS[number % ENDPOINTS.len()]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn edited_conversations_have_the_same_keys_judgments_and_diagnoses(
        api in 0..ENDPOINTS.len(),
        mut draft in draft(),
        edits in prop::collection::vec((edit(), any::<bool>(), any::<u8>()), 1..10),
    ) {
        let mut client = Client::new(endpoint(api));
        client.take(&draft.text(), true, 0);
        for (edit, with_price, usage) in edits {
            draft.apply(&edit);
            client.take(&draft.text(), with_price, usage);
        }
    }

    #[test]
    fn texts_with_changed_bytes_have_the_same_keys_and_judgments(
        api in 0..ENDPOINTS.len(),
        draft in draft(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[ -~]|\\PC|[{}\\[\\]:,\"\\\\]", 0..3_u8), 1..12),
    ) {
        let mut client = Client::new(endpoint(api));
        let whole = draft.text();
        client.take(&whole, true, 0);
        for (at, inserted, removed) in changes {
            let at = whole.floor_char_boundary(at.index(whole.len()));
            let end = whole.ceil_char_boundary((at + usize::from(removed)).min(whole.len()));
            let text = format!("{}{inserted}{}", &whole[..at], &whole[end..]);
            client.take(&text, false, 1);
        }
    }
}

/// Messages that have nothing remarkable.
fn conversation(turns: usize) -> Draft {
    let messages = (0..turns).map(|turn| (turn % 2, turn as u8)).collect();
    Draft {
        lists: vec![("messages", messages)],
        members: vec![(0, 0)],
        spacing: 1,
    }
}

#[test]
fn only_new_pieces_are_judged() {
    let mut client = Client::new(Endpoint::chat());
    let mut draft = conversation(9);
    client.take(&draft.text(), true, 0);
    draft.apply(&Edit::Append(0, (1, 200)));
    let text = Bytes::from(draft.text());
    let recent = client.index.recent("client", Endpoint::chat());
    let split = Split::read(&text, &recent).unwrap();
    let whole = Split::read(&text, &[]).unwrap();
    assert!(split.new_bytes < 1_000 && whole.new_bytes == text.len());
    let parsed = ParsedBody::of_pieces(Endpoint::chat(), &split, &Arc::default(), true).unwrap();
    assert_eq!(parsed.outline["messages"].as_array().unwrap().len(), 1);
    // Pieces of other clients, and of requests to other endpoints, are not known.
    assert!(client.index.recent("other", Endpoint::chat()).is_empty());
    assert!(
        client
            .index
            .recent("client", Endpoint::messages())
            .is_empty()
    );
    client.take(&draft.text(), true, 0);
    assert_eq!(client.index.recent("client", Endpoint::chat()).len(), 1);
    // Another conversation is kept beside it.
    client.take(
        r#"{"messages":[{"role":"user","content":"other"}]}"#,
        true,
        0,
    );
    assert_eq!(client.index.recent("client", Endpoint::chat()).len(), 2);
    assert_eq!(client.counts, [3, 0]);
}

#[test]
fn equal_messages_may_be_system_text_and_a_message() {
    let mut client = Client::new(Endpoint::chat());
    let developer = (8, 3);
    let mut draft = Draft {
        lists: vec![("messages", vec![developer, (0, 1), developer, (0, 2)])],
        members: vec![(0, 0)],
        spacing: 0,
    };
    client.take(&draft.text(), false, 1);
    // The two are one piece, found by its bytes.
    draft.apply(&Edit::Insert(0, 0, developer));
    client.take(&draft.text(), false, 1);
    draft.apply(&Edit::Change(0, 3, (1, 4)));
    client.take(&draft.text(), false, 1);
    assert_eq!(client.counts, [3, 0]);
}

#[test]
fn bodies_are_forgotten_when_there_are_too_many() {
    let mut client = Client::new(Endpoint::chat());
    for turn in 0..300_u16 {
        let message = format!(
            r#"{{"messages":[{{"role":"user","content":"{turn} {}"}}]}}"#,
            "x".repeat(100_000)
        );
        client.take(&message, false, 0);
        let bodies = client.index.0.lock();
        let sum: usize = bodies
            .recent
            .iter()
            .map(|recent| recent.body.weight())
            .sum();
        assert!(sum == bodies.bytes && sum <= MAX_BYTES && bodies.recent.len() <= MAX_BODIES);
    }
    assert!(client.index.0.lock().recent.len() > 50);
}

#[test]
fn very_deep_and_odd_bodies_are_left_to_the_whole_text() {
    let mut client = Client::new(Endpoint::chat());
    let deep = |depth: usize| {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"messages":[{{"role":"user","content":"x","deep":{nested}}}]}}"#)
    };
    for text in [
        deep(120),
        deep(10_000),
        r#"{"messages":[1]}"#.to_owned(),
        r#"{"messages":["x"]}"#.to_owned(),
        r#"{"mess\u0061ges":[]}"#.to_owned(),
        r#"{"a":1,"a":1,"messages":[]}"#.to_owned(),
        r#"{"messages":[{"a":1,"a":2}]}"#.to_owned(),
        r#"{"messages":[{"a":1e999}]}"#.to_owned(),
        r#"{"messages":[{"a":"\ud800"}]}"#.to_owned(),
        r#"{"messages":[{"a":1},]}"#.to_owned(),
        r#"[{"a":1}]"#.to_owned(),
        String::new(),
    ] {
        client.take(&text, true, 0);
    }
    assert_eq!(client.counts[0], 0);
    client.take(&deep(50), true, 0);
    client.take("{}", true, 0);
    assert_eq!(client.counts[0], 2);
}

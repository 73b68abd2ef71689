//! Anthropic's rules as pure functions, against the worked examples of the documentation.
//!
//! A block of these prompts counts 100 tokens, so that ten of them are long enough for the model.

use cachalot_accounting::anthropic::{
    Block, Charge, Level, LookbackUnit, Prompt, ProviderCache, Ttl, Usage, charge,
};
use cachalot_accounting::{Content, Rules};
use cachalot_core::Digest;

use crate::START;

const MINUTE: i64 = 60_000;
/// A model that caches prefixes from 1,024 tokens on.
const MODEL: &str = "claude-sonnet-4-5";

fn content(name: &str, tokens: usize) -> Content {
    let mut text = name.to_owned();
    text.push_str(&".".repeat(tokens * 4 - name.len()));
    Content {
        frame: "user|text|".to_owned(),
        text,
        images: 0,
    }
}

fn block(name: &str) -> Block {
    Block {
        content: content(name, 100),
        ..Block::default()
    }
}

/// A conversation of so many blocks, with breakpoints behind some of them, counted from 1.
fn conversation(blocks: usize, breakpoints: &[(usize, Ttl)]) -> Prompt {
    let mut messages: Vec<Block> = (1..=blocks)
        .map(|at| block(&format!("block {at} ")))
        .collect();
    for (at, ttl) in breakpoints {
        messages[at - 1].breakpoint = Some(*ttl);
    }
    of(vec![], vec![], messages)
}

fn of(tools: Vec<Block>, system: Vec<Block>, messages: Vec<Block>) -> Prompt {
    let level = |blocks| Level {
        settings: Content::default(),
        blocks,
    };
    Prompt {
        namespace: Digest::sha256(b"workspace"),
        model: MODEL.to_owned(),
        levels: [level(tools), level(system), level(messages)],
    }
}

/// A cache and its clock.
struct Cache {
    store: ProviderCache,
    rules: Rules,
    now: i64,
}

impl Cache {
    fn new() -> Self {
        Self {
            store: ProviderCache::default(),
            rules: Rules::published(),
            now: START,
        }
    }

    fn look(&self, prompt: &Prompt) -> Charge {
        charge(prompt, &self.rules.anthropic, &self.store, self.now)
    }

    /// Sends a request whose response begins at once.
    fn send(&mut self, prompt: &Prompt) -> Usage {
        let charge = self.look(prompt);
        self.store.begin(&charge);
        charge.usage
    }
}

fn usage(read: u64, written_5m: u64, written_1h: u64, uncached: u64) -> Usage {
    Usage {
        uncached,
        read,
        written_5m,
        written_1h,
    }
}

const SHORT: Ttl = Ttl::FiveMinutes;
const LONG: Ttl = Ttl::OneHour;

#[test]
fn the_published_example_of_a_growing_conversation() {
    let mut cache = Cache::new();
    // The blocks of the example; here the eleventh is the first behind which caching is possible.
    assert_eq!(
        cache.send(&conversation(11, &[(11, SHORT)])),
        usage(0, 1_100, 0, 0)
    );
    assert_eq!(
        cache.send(&conversation(15, &[(15, SHORT)])),
        usage(1_100, 400, 0, 0)
    );
    // Written at 15, breakpoint at 35: positions 35 to 16 are looked at.
    assert_eq!(
        cache.look(&conversation(35, &[(35, SHORT)])).usage,
        usage(0, 3_500, 0, 0)
    );
    // A second breakpoint at 15 starts a second look-back.
    let two = conversation(35, &[(15, SHORT), (35, SHORT)]);
    assert_eq!(cache.look(&two).usage, usage(1_500, 2_000, 0, 0));
    // Breakpoint at 34: position 15 is the twentieth.
    assert_eq!(
        cache.look(&conversation(34, &[(34, SHORT)])).usage,
        usage(1_500, 1_900, 0, 0)
    );
    // Breakpoint at 20.
    assert_eq!(
        cache.look(&conversation(20, &[(20, SHORT)])).usage,
        usage(1_500, 500, 0, 0)
    );
}

#[test]
fn lookup_finds_written_prefixes_only() {
    let mut cache = Cache::new();
    let changing = |text: &str| {
        let mut messages: Vec<Block> = (1..=12).map(|at| block(&format!("static {at} "))).collect();
        messages.push(block(text));
        messages
    };
    // The published mistake: the breakpoint behind the block that changes.
    let mut first = changing("10:01");
    first[12].breakpoint = Some(SHORT);
    let mut second = changing("10:02");
    second[12].breakpoint = Some(SHORT);
    assert_eq!(
        cache.send(&of(vec![], vec![], first)),
        usage(0, 1_300, 0, 0)
    );
    assert_eq!(
        cache.send(&of(vec![], vec![], second)),
        usage(0, 1_300, 0, 0)
    );
    // The remedy: behind the last block that stays the same.
    for (text, expected) in [
        ("10:03", usage(0, 1_200, 0, 100)),
        ("10:04", usage(1_200, 0, 0, 100)),
    ] {
        let mut messages = changing(text);
        messages[11].breakpoint = Some(SHORT);
        assert_eq!(cache.send(&of(vec![], vec![], messages)), expected);
    }
}

#[test]
fn runs_of_tool_blocks_are_one_position() {
    let mut cache = Cache::new();
    let mut messages: Vec<Block> = (1..=15).map(|at| block(&format!("block {at} "))).collect();
    messages[14].breakpoint = Some(SHORT);
    assert_eq!(
        cache.send(&of(vec![], vec![], messages.clone())),
        usage(0, 1_500, 0, 0)
    );
    messages[14].breakpoint = None;
    // Fifteen parallel calls and their results: thirty blocks, two positions.
    for run in [LookbackUnit::ToolUses, LookbackUnit::ToolResults] {
        messages.extend((0..15).map(|at| Block {
            run,
            ..block(&format!("{run:?} {at} "))
        }));
    }
    messages[44].breakpoint = Some(SHORT);
    let prompt = of(vec![], vec![], messages);
    assert_eq!(cache.look(&prompt).usage, usage(1_500, 3_000, 0, 0));
    cache.rules.anthropic.runs_count_once = false;
    assert_eq!(cache.look(&prompt).usage, usage(0, 4_500, 0, 0));
}

#[test]
fn below_the_minimum_nothing_is_cached_or_reported() {
    let mut cache = Cache::new();
    let short = conversation(10, &[(10, SHORT)]);
    assert_eq!(cache.send(&short), usage(0, 0, 0, 1_000));
    assert_eq!(cache.send(&short), usage(0, 0, 0, 1_000));
    // A later breakpoint that is long enough is written; the early one still is not.
    let both = conversation(12, &[(5, SHORT), (11, SHORT)]);
    assert_eq!(cache.send(&both), usage(0, 1_100, 0, 100));
    let early = conversation(12, &[(5, SHORT)]);
    assert_eq!(cache.send(&early), usage(0, 0, 0, 1_200));

    // The same prompt with a model whose minimum is lower, and one whose minimum is higher.
    let with = |model: &str, blocks: usize| Prompt {
        model: model.to_owned(),
        ..conversation(blocks, &[(blocks, SHORT)])
    };
    assert_eq!(cache.send(&with("claude-opus-5", 6)), usage(0, 600, 0, 0));
    assert_eq!(cache.send(&with("claude-opus-5", 6)), usage(600, 0, 0, 0));
    assert_eq!(cache.send(&with("claude-opus-5", 5)), usage(0, 0, 0, 500));
    assert_eq!(
        cache.send(&with("claude-haiku-4-5", 40)),
        usage(0, 0, 0, 4_000)
    );
    assert_eq!(
        cache.send(&with("claude-haiku-4-5", 41)),
        usage(0, 4_100, 0, 0)
    );
}

#[test]
fn an_entry_lives_five_minutes_from_the_start_of_its_last_use() {
    let mut cache = Cache::new();
    let prompt = conversation(12, &[(12, SHORT)]);
    cache.send(&prompt);
    for _ in 0..3 {
        // Each read refreshes it.
        cache.now += 5 * MINUTE - 1;
        assert_eq!(cache.send(&prompt), usage(1_200, 0, 0, 0));
    }
    cache.now += 5 * MINUTE;
    assert_eq!(cache.send(&prompt), usage(0, 1_200, 0, 0));

    // Life is counted from the start of the request, however long its response takes to begin.
    let mut cache = Cache::new();
    let slow = cache.look(&prompt);
    cache.now += 4 * MINUTE;
    cache.store.begin(&slow);
    cache.now += MINUTE - 1;
    assert_eq!(cache.look(&prompt).usage, usage(1_200, 0, 0, 0));
    cache.now += 1;
    assert_eq!(cache.look(&prompt).usage, usage(0, 1_200, 0, 0));
}

#[test]
fn an_hour_outlives_five_minutes() {
    let mut cache = Cache::new();
    let prompt = conversation(24, &[(12, LONG), (24, SHORT)]);
    assert_eq!(cache.send(&prompt), usage(0, 1_200, 1_200, 0));
    cache.now += 5 * MINUTE;
    // The later entry is gone, the earlier one is not.
    assert_eq!(cache.send(&prompt), usage(1_200, 1_200, 0, 0));
    cache.now += 60 * MINUTE - 1;
    assert_eq!(cache.send(&prompt), usage(1_200, 1_200, 0, 0));
    cache.now += 60 * MINUTE;
    assert_eq!(cache.send(&prompt), usage(0, 1_200, 1_200, 0));
}

#[test]
fn reading_a_longer_prefix_refreshes_the_marked_one_within_it() {
    let mut cache = Cache::new();
    let prompt = conversation(24, &[(12, SHORT), (24, SHORT)]);
    cache.send(&prompt);
    cache.now += 4 * MINUTE;
    assert_eq!(cache.send(&prompt), usage(2_400, 0, 0, 0));
    cache.now += 4 * MINUTE;
    assert_eq!(
        cache.look(&conversation(12, &[(12, SHORT)])).usage,
        usage(1_200, 0, 0, 0)
    );
}

#[test]
fn mixed_lifetimes_are_billed_by_the_positions_a_b_and_c() {
    let mut cache = Cache::new();
    // Nothing is cached: A = 0, B = the last breakpoint of an hour, C = the last breakpoint.
    let first = conversation(30, &[(11, LONG), (20, LONG), (28, SHORT)]);
    assert_eq!(cache.send(&first), usage(0, 800, 2_000, 200));
    // A = 11: the blocks behind changed.
    let mut second = conversation(30, &[(11, LONG), (20, LONG), (28, SHORT)]);
    second.levels[2].blocks[11] = block("changed");
    assert_eq!(cache.send(&second), usage(1_100, 800, 900, 200));
    // A = 20, so no breakpoint of an hour lies behind it: B = A.
    let mut third = conversation(30, &[(11, LONG), (20, LONG), (28, SHORT)]);
    third.levels[2].blocks[25] = block("changed too");
    assert_eq!(cache.send(&third), usage(2_000, 800, 0, 200));
    // Everything is cached.
    assert_eq!(cache.send(&third), usage(2_800, 0, 0, 200));
    // `input_tokens` is only what lies behind the last breakpoint: the example of 100,000 and 50.
    let mut messages: Vec<Block> = (0..1_000).map(|at| block(&format!("{at} "))).collect();
    messages[999].breakpoint = Some(SHORT);
    messages.push(Block {
        content: content("question", 50),
        ..Block::default()
    });
    let prompt = of(vec![], vec![], messages);
    cache.send(&prompt);
    assert_eq!(cache.send(&prompt), usage(100_000, 0, 0, 50));
}

/// Cost of `requests` identical requests in units of uncached input tokens.
fn cost(ttl: Option<Ttl>, requests: usize) -> f64 {
    let mut cache = Cache::new();
    let breakpoints: Vec<(usize, Ttl)> = ttl.into_iter().map(|ttl| (20, ttl)).collect();
    let prompt = conversation(20, &breakpoints);
    let usages = (0..requests).map(|_| cache.send(&prompt));
    usages
        .map(|usage| {
            usage.uncached as f64
                + 0.1 * usage.read as f64
                + 1.25 * usage.written_5m as f64
                + 2.0 * usage.written_1h as f64
        })
        .sum()
}

#[test]
fn caching_pays_from_the_second_request_on_and_for_an_hour_from_the_third() {
    assert!((cost(None, 2) - 4_000.0).abs() < 0.5);
    assert!((cost(Some(SHORT), 2) - 1.35 * 2_000.0).abs() < 0.5);
    assert!(cost(Some(SHORT), 1) > cost(None, 1) && cost(Some(SHORT), 2) < cost(None, 2));
    assert!(cost(Some(LONG), 2) > cost(None, 2) && cost(Some(LONG), 3) < cost(None, 3));
}

#[test]
fn requests_at_the_same_time_all_write() {
    let mut cache = Cache::new();
    let prompt = conversation(12, &[(12, SHORT)]);
    let (first, second) = (cache.look(&prompt), cache.look(&prompt));
    assert_eq!(first.usage, usage(0, 1_200, 0, 0));
    assert_eq!(second.usage, first.usage);
    cache.store.begin(&first);
    assert_eq!(cache.look(&prompt).usage, usage(1_200, 0, 0, 0));
    cache.store.begin(&second);
    assert_eq!(cache.look(&prompt).usage, usage(1_200, 0, 0, 0));
    // A response that begins late does not shorten the life of a newer entry.
    cache.now += 3 * MINUTE;
    let late = cache.look(&prompt);
    cache.now += MINUTE;
    cache.send(&prompt);
    cache.store.begin(&late);
    cache.now += 5 * MINUTE - 1;
    assert_eq!(cache.look(&prompt).usage, usage(1_200, 0, 0, 0));
}

#[test]
fn changed_level_invalidates_the_levels_after_it() {
    let mut cache = Cache::new();
    let prompt = |tools: &str, system: &str, message: &str| {
        let level = |name: &str| {
            let mut blocks: Vec<Block> =
                (0..11).map(|at| block(&format!("{name} {at} "))).collect();
            blocks[10].breakpoint = Some(SHORT);
            blocks
        };
        of(level(tools), level(system), level(message))
    };
    assert_eq!(cache.send(&prompt("t", "s", "m")), usage(0, 3_300, 0, 0));
    assert_eq!(cache.send(&prompt("t", "s", "m")), usage(3_300, 0, 0, 0));
    assert_eq!(
        cache.send(&prompt("t", "s", "M")),
        usage(2_200, 1_100, 0, 0)
    );
    assert_eq!(
        cache.send(&prompt("t", "S", "m")),
        usage(1_100, 2_200, 0, 0)
    );
    assert_eq!(cache.send(&prompt("T", "s", "m")), usage(0, 3_300, 0, 0));
    // The same blocks on another level are another prefix.
    assert_eq!(cache.send(&prompt("s", "t", "m")), usage(0, 3_300, 0, 0));

    // Settings lose their level and those behind it.
    let set = |level: usize| {
        let mut prompt = prompt("t", "s", "m");
        prompt.levels[level].settings.frame = "changed".to_owned();
        prompt
    };
    assert_eq!(cache.look(&set(2)).usage, usage(2_200, 1_100, 0, 0));
    assert_eq!(cache.look(&set(1)).usage, usage(1_100, 2_200, 0, 0));
    assert_eq!(cache.look(&set(0)).usage, usage(0, 3_300, 0, 0));
    // And so do another model and another workspace.
    let mut other = prompt("t", "s", "m");
    other.model = "claude-sonnet-4-6".to_owned();
    assert_eq!(cache.look(&other).usage.read, 0);
    other.model = MODEL.to_owned();
    assert_eq!(cache.look(&other).usage.read, 3_300);
    other.namespace = Digest::sha256(b"another workspace");
    assert_eq!(cache.look(&other).usage.read, 0);
}

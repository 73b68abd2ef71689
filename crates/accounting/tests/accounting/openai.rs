//! OpenAI's rules as pure functions. A block counts 100 tokens.

use cachalot_accounting::openai::{
    Block, Charge, End, FIRST_MACHINE, Mode, Prompt, ProviderCache, Usage, charge,
};
use cachalot_accounting::{Content, Rules};
use cachalot_core::Digest;

use crate::START;

const MINUTE: i64 = 60_000;

fn block(name: &str, end: Option<End>) -> Block {
    let mut text = format!("{name} ");
    text.push_str(&".".repeat(400 - text.len()));
    Block {
        content: Content {
            frame: "user".to_owned(),
            text,
            images: 0,
        },
        is_marked: false,
        end,
    }
}

/// Messages of one block each.
fn prompt(model: &str, names: &[&str]) -> Prompt {
    Prompt {
        namespace: Digest::sha256(b"organisation"),
        model: model.to_owned(),
        cache_key: None,
        settings: Content::default(),
        blocks: names
            .iter()
            .map(|name| block(name, Some(End::Eligible)))
            .collect(),
        mode: Mode::Implicit,
        lifetime: None,
    }
}

fn conversation(model: &str, messages: usize) -> Prompt {
    let names: Vec<String> = (0..messages).map(|at| format!("message {at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    prompt(model, &names)
}

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
        charge(
            prompt,
            &self.rules.openai,
            &self.store,
            FIRST_MACHINE,
            self.now,
        )
    }

    fn send(&mut self, prompt: &Prompt) -> Usage {
        let charge = self.look(prompt);
        self.store.begin(&charge);
        charge.usage
    }
}

fn usage(total: u64, cached: u64, written: u64) -> Usage {
    Usage {
        total,
        cached,
        written,
    }
}

const OLD: &str = "gpt-4o";
const NEW: &str = "gpt-5.6";

#[test]
fn automatic_caching_counts_in_multiples_of_128_from_1024_on() {
    let mut cache = Cache::new();
    assert_eq!(cache.send(&conversation(OLD, 30)), usage(3_000, 0, 0));
    assert_eq!(cache.send(&conversation(OLD, 30)), usage(3_000, 2_944, 0));
    assert_eq!(
        cache.look(&conversation(OLD, 31)).usage,
        usage(3_100, 2_944, 0)
    );
    assert_eq!(
        cache.look(&conversation(OLD, 11)).usage,
        usage(1_100, 1_024, 0)
    );
    // 1,000 tokens are too few.
    assert_eq!(cache.look(&conversation(OLD, 10)).usage, usage(1_000, 0, 0));
    let mut cache = Cache::new();
    for _ in 0..2 {
        assert_eq!(cache.send(&conversation(OLD, 10)), usage(1_000, 0, 0));
    }
}

#[test]
fn deepseek_caches_units_of_64_tokens() {
    let mut cache = Cache::new();
    let model = "deepseek-chat";
    assert_eq!(cache.send(&conversation(model, 1)), usage(100, 0, 0));
    assert_eq!(cache.send(&conversation(model, 1)), usage(100, 64, 0));
    assert_eq!(cache.look(&conversation(model, 7)).usage, usage(700, 64, 0));
    cache.send(&conversation(model, 7));
    assert_eq!(
        cache.look(&conversation(model, 7)).usage,
        usage(700, 640, 0)
    );
}

#[test]
fn automatic_caching_matches_within_a_block_up_to_the_first_difference() {
    let mut cache = Cache::new();
    let long = |tail: &str| {
        let mut prompt = conversation(OLD, 1);
        prompt.blocks[0].content.text = format!("{}{tail}", "whale ".repeat(2_000));
        prompt
    };
    cache.send(&long("one"));
    assert_eq!(cache.look(&long("two")).usage, usage(3_001, 2_944, 0));
    // Something at the beginning that differs leaves nothing.
    let mut changed = long("one");
    changed.blocks[0].content.text.insert_str(0, "10:01");
    assert_eq!(cache.look(&changed).usage.cached, 0);
    let mut settings = long("one");
    settings.settings.frame = "reasoning_effort=high".to_owned();
    assert_eq!(cache.look(&settings).usage.cached, 0);
}

#[test]
fn an_image_is_cached_whole() {
    let mut cache = Cache::new();
    let with_image = |data: &str| {
        let mut prompt = conversation(OLD, 12);
        prompt.blocks[5].content = Content {
            frame: data.to_owned(),
            text: String::new(),
            images: 1_000,
        };
        prompt
    };
    cache.send(&with_image("cat"));
    assert_eq!(cache.look(&with_image("cat")).usage, usage(2_100, 2_048, 0));
    // What lies before the other image is too short.
    assert_eq!(cache.look(&with_image("dog")).usage, usage(2_100, 0, 0));
}

#[test]
fn the_key_and_the_organisation_separate_caches() {
    let mut cache = Cache::new();
    let with_key = |key: Option<&str>| Prompt {
        cache_key: key.map(str::to_owned),
        ..conversation(OLD, 30)
    };
    cache.send(&with_key(Some("a")));
    assert_eq!(cache.look(&with_key(Some("a"))).usage.cached, 2_944);
    assert_eq!(cache.look(&with_key(Some("b"))).usage.cached, 0);
    assert_eq!(cache.look(&with_key(None)).usage.cached, 0);
    let elsewhere = Prompt {
        namespace: Digest::sha256(b"another organisation"),
        ..with_key(Some("a"))
    };
    assert_eq!(cache.look(&elsewhere).usage.cached, 0);
}

#[test]
fn a_crowded_route_overflows_to_another_machine() {
    let mut cache = Cache::new();
    let prompt = conversation(OLD, 30);
    let machines: Vec<u64> = (0..5)
        .map(|_| cache.store.route(&prompt, Some(2), START))
        .collect();
    assert_eq!(machines, [0, 0, 1, 1, 2]);
    // The same beginning is the same route, another beginning or key is another one.
    assert_eq!(cache.store.route(&conversation(OLD, 31), Some(2), START), 2);
    let other = Prompt {
        cache_key: Some("key".to_owned()),
        ..prompt.clone()
    };
    assert_eq!(cache.store.route(&other, Some(2), START), 0);
    assert_eq!(cache.store.route(&prompt, Some(2), START + MINUTE), 0);
    assert_eq!(cache.store.route(&prompt, None, START), 0);
    // What one machine has, another has not.
    let rules = &cache.rules.openai;
    let charged = charge(&prompt, rules, &cache.store, 0, START);
    cache.store.begin(&charged);
    assert_eq!(
        charge(&prompt, rules, &cache.store, 0, START).usage.cached,
        2_944
    );
    assert_eq!(
        charge(&prompt, rules, &cache.store, 1, START).usage.cached,
        0
    );
}

#[test]
fn retention_ends_by_idleness_and_by_age() {
    let mut cache = Cache::new();
    let prompt = conversation(OLD, 30);
    cache.send(&prompt);
    cache.now += 5 * MINUTE;
    assert_eq!(cache.look(&prompt).usage.cached, 0);
    cache.now -= 1;
    assert_eq!(cache.look(&prompt).usage.cached, 2_944);
    // Kept busy, it still ends after an hour.
    while cache.now < START + 59 * MINUTE {
        cache.send(&prompt);
        cache.now += 4 * MINUTE;
    }
    cache.now = START + 60 * MINUTE - 1;
    assert_eq!(cache.look(&prompt).usage.cached, 2_944);
    cache.now = START + 60 * MINUTE;
    assert_eq!(cache.send(&prompt).cached, 0);
    assert_eq!(cache.send(&prompt).cached, 2_944);

    let day = Prompt {
        lifetime: Some("24h".to_owned()),
        cache_key: Some("day".to_owned()),
        ..conversation(OLD, 30)
    };
    cache.send(&day);
    cache.now += 23 * 60 * MINUTE;
    assert_eq!(cache.look(&day).usage.cached, 2_944);
}

#[test]
fn gpt_5_5_matches_every_2048_tokens() {
    let mut cache = Cache::new();
    cache.send(&conversation("gpt-5.5", 50));
    assert_eq!(
        cache.look(&conversation("gpt-5.5", 50)).usage,
        usage(5_000, 4_096, 0)
    );
    assert_eq!(
        cache.look(&conversation("gpt-5.5", 40)).usage,
        usage(4_000, 2_048, 0)
    );
    assert_eq!(
        cache.look(&conversation("gpt-5.5", 20)).usage,
        usage(2_000, 0, 0)
    );
}

#[test]
fn exact_caching_writes_at_the_newest_message_and_reports_exact_lengths() {
    let mut cache = Cache::new();
    assert_eq!(cache.send(&conversation(NEW, 12)), usage(1_200, 0, 1_200));
    assert_eq!(cache.send(&conversation(NEW, 12)), usage(1_200, 1_200, 0));
    assert_eq!(cache.send(&conversation(NEW, 15)), usage(1_500, 1_200, 300));
    assert_eq!(cache.send(&conversation(NEW, 10)), usage(1_000, 0, 0));
    // A prefix that was never the end of a newest message was not written.
    assert_eq!(
        cache.look(&conversation(NEW, 14)).usage,
        usage(1_400, 1_200, 200)
    );
}

#[test]
fn exact_caching_misses_when_a_message_is_extended() {
    let mut cache = Cache::new();
    cache.send(&conversation(NEW, 12));
    let mut longer = conversation(NEW, 12);
    longer.blocks[11].end = None;
    longer
        .blocks
        .push(block("more of the same message", Some(End::Eligible)));
    assert_eq!(cache.look(&longer).usage, usage(1_300, 0, 1_300));
}

#[test]
fn a_static_beginning_with_a_changing_end_needs_an_explicit_breakpoint() {
    let mut cache = Cache::new();
    let ask = |question: &str, is_marked: bool| {
        let mut prompt = conversation(NEW, 12);
        for block in &mut prompt.blocks {
            block.end = None;
        }
        prompt.blocks[11].end = Some(End::Beginning);
        prompt.blocks[11].is_marked = is_marked;
        prompt.blocks.push(block(question, Some(End::Eligible)));
        prompt
    };
    // Implicit only: each question writes everything again.
    assert_eq!(cache.send(&ask("one", false)), usage(1_300, 0, 1_300));
    assert_eq!(cache.send(&ask("two", false)), usage(1_300, 0, 1_300));
    // Marked: the beginning is written once, and from then on read.
    assert_eq!(cache.send(&ask("three", true)), usage(1_300, 0, 1_300));
    assert_eq!(cache.send(&ask("four", true)), usage(1_300, 1_200, 100));
    // The end of the developer messages is looked up even when it is not marked.
    assert_eq!(cache.send(&ask("five", false)), usage(1_300, 1_200, 100));
    // Explicit mode does not write the question.
    let explicit = |question: &str| Prompt {
        mode: Mode::Explicit,
        ..ask(question, true)
    };
    assert_eq!(cache.send(&explicit("six")), usage(1_300, 1_200, 0));
    let unmarked = Prompt {
        mode: Mode::Explicit,
        ..ask("seven", false)
    };
    assert_eq!(cache.send(&unmarked), usage(1_300, 0, 0));
}

#[test]
fn lookup_tries_twenty_earlier_ends_and_a_limited_number_of_marks() {
    let mut cache = Cache::new();
    cache.send(&conversation(NEW, 12));
    assert_eq!(
        cache.look(&conversation(NEW, 32)).usage,
        usage(3_200, 1_200, 2_000)
    );
    assert_eq!(
        cache.look(&conversation(NEW, 33)).usage,
        usage(3_300, 0, 3_300)
    );

    let marked = |blocks: usize, marks: std::ops::Range<usize>| {
        let mut prompt = conversation(NEW, blocks);
        prompt.mode = Mode::Explicit;
        for at in marks {
            prompt.blocks[at].is_marked = true;
        }
        prompt
    };
    // Of five marks the latest four are written.
    let mut cache = Cache::new();
    assert_eq!(cache.send(&marked(20, 11..16)), usage(2_000, 0, 1_600));
    assert_eq!(
        cache.look(&marked(20, 11..12)).usage,
        usage(2_000, 0, 1_200)
    );
    assert_eq!(
        cache.look(&marked(20, 12..13)).usage,
        usage(2_000, 1_300, 0)
    );
    // Sixty marks: 0 and 1 are the first two, 10 to 59 the latest fifty, and 2 to 9 are not tried.
    let mut cache = Cache::new();
    let far = |first: usize| marked(first + 60, first..first + 60);
    cache.send(&marked(25, 20..21));
    assert_eq!(cache.look(&far(20)).usage.cached, 2_100);
    assert_eq!(cache.look(&far(19)).usage.cached, 2_100);
    assert_eq!(cache.look(&far(18)).usage.cached, 0);
    assert_eq!(cache.look(&far(11)).usage.cached, 0);
    assert_eq!(cache.look(&marked(70, 11..70)).usage.cached, 2_100);
}

#[test]
fn exact_caching_lives_thirty_minutes_and_is_refreshed() {
    let mut cache = Cache::new();
    let prompt = conversation(NEW, 12);
    cache.send(&prompt);
    for _ in 0..5 {
        cache.now += 30 * MINUTE - 1;
        assert_eq!(cache.send(&prompt), usage(1_200, 1_200, 0));
    }
    cache.now += 30 * MINUTE;
    assert_eq!(cache.send(&prompt), usage(1_200, 0, 1_200));
}

#[test]
fn requests_at_the_same_time_all_write() {
    let mut cache = Cache::new();
    let prompt = conversation(NEW, 12);
    let (first, second) = (cache.look(&prompt), cache.look(&prompt));
    cache.store.begin(&first);
    assert_eq!((first.usage.written, second.usage.written), (1_200, 1_200));
    assert_eq!(cache.look(&prompt).usage, usage(1_200, 1_200, 0));
}

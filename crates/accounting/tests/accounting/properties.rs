//! Properties of the accounting that hold for arbitrary prompts.

use cachalot_accounting::tokens;
use cachalot_accounting::{Content, Rules, anthropic, openai};
use cachalot_core::Digest;
use proptest::prelude::*;

use crate::START;

/// A conversation: a tree of texts, so that prompts share prefixes, cut and marked anywhere.
#[derive(Debug, Clone)]
struct PromptCase {
    branch: u8,
    blocks: usize,
    marks: Vec<(usize, bool)>,
    pause: i64,
}

fn asked() -> impl Strategy<Value = PromptCase> {
    let marks = prop::collection::vec((1..40_usize, any::<bool>()), 0..4);
    (0..3_u8, 1..40_usize, marks, 0..400_000_i64).prop_map(|(branch, blocks, mut marks, pause)| {
        marks.sort_unstable();
        marks.dedup_by_key(|(at, _)| *at);
        // An hour before five minutes.
        let hours = marks.iter().filter(|(_, is_hour)| *is_hour).count();
        for (index, mark) in marks.iter_mut().enumerate() {
            mark.1 = index < hours;
        }
        PromptCase {
            branch,
            blocks,
            marks,
            pause,
        }
    })
}

fn content(asked: &PromptCase, at: usize) -> Content {
    let branch = if at > 15 { asked.branch } else { 0 };
    let text = format!("{branch}-{at} ").repeat(1 + at * 7 % 90);
    Content {
        frame: String::new(),
        text,
        images: 0,
    }
}

fn of_anthropic(asked: &PromptCase) -> anthropic::Prompt {
    let block = |at: usize| {
        let mark = asked.marks.iter().find(|(marked, _)| *marked == at + 1);
        anthropic::Block {
            content: content(asked, at),
            breakpoint: mark.map(|(_, is_hour)| match is_hour {
                true => anthropic::Ttl::OneHour,
                false => anthropic::Ttl::FiveMinutes,
            }),
            run: anthropic::LookbackUnit::Alone,
        }
    };
    let messages = anthropic::Level {
        settings: Content::default(),
        blocks: (0..asked.blocks).map(block).collect(),
    };
    anthropic::Prompt {
        namespace: Digest::sha256(b""),
        model: "claude-opus-5".to_owned(),
        levels: [
            anthropic::Level::default(),
            anthropic::Level::default(),
            messages,
        ],
    }
}

fn of_openai(asked: &PromptCase, model: &str) -> openai::Prompt {
    let block = |at: usize| openai::Block {
        content: content(asked, at),
        is_marked: asked.marks.iter().any(|(marked, _)| *marked == at + 1),
        end: Some(openai::End::Eligible),
    };
    openai::Prompt {
        namespace: Digest::sha256(b""),
        model: model.to_owned(),
        cache_key: None,
        settings: Content::default(),
        blocks: (0..asked.blocks).map(block).collect(),
        mode: openai::Mode::Implicit,
        lifetime: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_input_token_is_counted_once(asked in prop::collection::vec(asked(), 1..12)) {
        let rules = Rules::published();
        let (mut claude, mut gpt) = (anthropic::ProviderCache::default(), openai::ProviderCache::default());
        let mut now = START;
        for asked in &asked {
            now += asked.pause;
            let whole: u64 = (0..asked.blocks).map(|at| content(asked, at).tokens()).sum();
            let charge = anthropic::charge(&of_anthropic(asked), &rules.anthropic, &claude, now);
            claude.begin(&charge);
            prop_assert_eq!(charge.usage.total(), whole);
            let last = asked.marks.iter().filter(|(at, _)| *at <= asked.blocks).map(|(at, _)| *at).max();
            let up_to_last: u64 = (0..last.unwrap_or(0)).map(|at| content(asked, at).tokens()).sum();
            let usage = charge.usage;
            prop_assert!(usage.read + usage.written_5m + usage.written_1h <= up_to_last);

            for (model, minimum, unit) in [
                ("gpt-4o", 1_024, 128),
                ("gpt-5.5", 1_024, 2_048),
                ("gpt-5.6", 1_024, 1),
                ("deepseek-chat", 64, 64),
            ] {
                let prompt = of_openai(asked, model);
                let charge = openai::charge(&prompt, &rules.openai, &gpt, 0, now);
                gpt.begin(&charge);
                let usage = charge.usage;
                prop_assert_eq!(usage.total, whole);
                prop_assert!(usage.cached + usage.written <= usage.total);
                prop_assert!(usage.cached == 0 || usage.cached >= minimum);
                prop_assert!(usage.cached.is_multiple_of(unit));
                prop_assert!(unit == 1 || usage.written == 0);
            }
        }
    }

    #[test]
    fn repeated_request_reads_everything_that_was_written(asked in asked()) {
        let rules = Rules::published();
        let mut store = anthropic::ProviderCache::default();
        let prompt = of_anthropic(&asked);
        let first = anthropic::charge(&prompt, &rules.anthropic, &store, START);
        store.begin(&first);
        let second = anthropic::charge(&prompt, &rules.anthropic, &store, START);
        let written = first.usage.written_5m + first.usage.written_1h;
        prop_assert_eq!(second.usage.read, written);
        prop_assert_eq!(second.usage.written_5m + second.usage.written_1h, 0);

        let mut store = openai::ProviderCache::default();
        let prompt = of_openai(&asked, "gpt-5.6");
        let first = openai::charge(&prompt, &rules.openai, &store, 0, START);
        store.begin(&first);
        let second = openai::charge(&prompt, &rules.openai, &store, 0, START);
        prop_assert_eq!(second.usage.cached, first.usage.written);
        prop_assert_eq!(second.usage.written, 0);
    }

    #[test]
    fn markers_do_not_change_the_identity_of_a_prefix(asked in asked()) {
        // What one request wrote is read by another that is marked at the same end and elsewhere.
        let rules = Rules::published();
        let mut store = anthropic::ProviderCache::default();
        let end = PromptCase { marks: vec![(asked.blocks, false)], ..asked.clone() };
        let first = anthropic::charge(&of_anthropic(&end), &rules.anthropic, &store, START);
        store.begin(&first);
        let mut marks = asked.marks.clone();
        marks.retain(|(at, _)| *at < asked.blocks);
        marks.push((asked.blocks, false));
        let again = PromptCase { marks, ..asked };
        let second = anthropic::charge(&of_anthropic(&again), &rules.anthropic, &store, START);
        prop_assert_eq!(second.usage.read, first.usage.written_5m);
    }

    #[test]
    fn the_estimate_is_monotone_and_at_most_one_token_more_when_split(left in ".{0,40}", right in ".{0,40}") {
        let whole = tokens::estimate(&format!("{left}{right}"));
        prop_assert!(whole >= tokens::estimate(&left));
        let parts = tokens::estimate(&left) + tokens::estimate(&right);
        prop_assert!(parts == whole || parts == whole + 1);
    }
}

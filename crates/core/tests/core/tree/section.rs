use cachalot_core::Problem;
use cachalot_core::tree::{Node, Section};

use super::read;

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn section<'a>(node: &'a Node, problems: &mut Vec<Problem>) -> Section<'a> {
    Section::from_node(node, "an agent file", problems).unwrap()
}

#[test]
fn section_reads_typed_values() {
    let node = read(
        "name: whale\nloud: false\nlimit: 5\nratio: 0.5\ntags: [a, b]\nwith:\n  any: thing\nempty:\nsettings:\n  db: x\n",
    );
    let problems = &mut vec![];
    let mut agent = section(&node, problems);
    assert_eq!(agent.required_text("name", problems), Some("whale"));
    assert_eq!(agent.text("title", problems), None);
    assert_eq!(agent.boolean("loud", problems), Some(false));
    assert_eq!(agent.integer("limit", 1..=5, problems), Some(5));
    assert_eq!(agent.number("ratio", problems), Some(0.5));
    assert_eq!(agent.list("tags", problems).unwrap().len(), 2);
    assert_eq!(agent.texts("tags", problems), Some(vec!["a", "b"]));
    assert_eq!(agent.map("with", problems).unwrap()[0].key, "any");
    assert_eq!(agent.list("empty", problems), None);
    assert!(agent.node("empty").unwrap().is_null() && agent.present("empty").is_none());
    let mut settings = agent.section("settings", "the settings", problems).unwrap();
    assert_eq!(settings.text("db", problems), Some("x"));
    assert_eq!((settings.place().line, settings.place().column), (10, 3));
    settings.finish(problems);
    assert!(agent.has("name") && !agent.has("title"));
    agent.finish(problems);
    assert_eq!(shown(problems), [""; 0]);
}

#[test]
fn unclaimed_keys_are_reported_with_a_suggestion() {
    let node = read("name: x\nttl_day: 1\nbanana: 2\nclaimed: 3\n");
    let problems = &mut vec![];
    let mut agent = section(&node, problems);
    agent.claim("claimed");
    let _ = (
        agent.text("name", problems),
        agent.text("name", problems),
        agent.node("ttl_days"),
    );
    agent.finish(problems);
    assert_eq!(
        shown(problems),
        [
            "agent.yaml:2:1: unknown key `ttl_day` in an agent file [unknown-key]; did you mean `ttl_days`?",
            "agent.yaml:3:1: unknown key `banana` in an agent file [unknown-key]; expected one of: claimed, name, ttl_days",
        ],
    );
}

#[test]
fn take_rest_returns_the_unclaimed_keys() {
    let node = read("uses: a.b\nx: 1\ny: 2\n");
    let problems = &mut vec![];
    let mut step = section(&node, problems);
    step.claim("uses");
    let rest: Vec<_> = step
        .take_rest()
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    assert_eq!(rest, ["x", "y"]);
    assert!(step.take_rest().is_empty());
    step.finish(problems);
    assert!(problems.is_empty());
}

#[test]
fn missing_key_is_reported_at_the_mapping() {
    let node = read("steps:\n  - uses: x\n    name:\n");
    let step = &node.get("steps").unwrap().as_list().unwrap()[0];
    let problems = &mut vec![];
    let mut section = Section::from_node(step, "a step", problems).unwrap();
    assert_eq!(section.required_text("output", problems), None);
    assert_eq!(section.required_text("name", problems), None);
    assert!(section.required("uses", problems).is_some());
    section.finish(problems);
    assert_eq!(
        shown(problems),
        [
            "agent.yaml:2:5: a step needs `output` [missing-key]; add `output: …`",
            "agent.yaml:3:5: a step needs `name` [missing-key]; write a value after the colon",
        ],
    );
}

#[test]
fn wrong_types_are_reported_and_read_as_none() {
    let node = read(concat!(
        "version: 1.10\nflag: \"true\"\nlimit: '5'\nratio: .inf\ntags: x\nwith: []\nsettings: 3\n",
        "texts: [a, 1]\ncount: 2.5\nname: [x]\n",
    ));
    let problems = &mut vec![];
    let mut agent = section(&node, problems);
    assert_eq!(agent.text("version", problems), None);
    assert_eq!(agent.boolean("flag", problems), None);
    assert_eq!(agent.integer("limit", 0..=9, problems), None);
    assert_eq!(agent.number("ratio", problems), None);
    assert_eq!(agent.list("tags", problems), None);
    assert_eq!(agent.map("with", problems), None);
    assert!(
        agent
            .section("settings", "the settings", problems)
            .is_none()
    );
    assert_eq!(agent.texts("texts", problems), Some(vec!["a"]));
    assert_eq!(agent.integer("count", 0..=9, problems), None);
    assert_eq!(agent.required_text("name", problems), None);
    agent.finish(problems);
    assert!(problems.iter().all(|problem| problem.code == "wrong-type"));
    let lines: Vec<_> = shown(problems)
        .iter()
        .map(|line| line.replace("agent.yaml:", "").replace(" [wrong-type]", ""))
        .collect();
    assert_eq!(
        lines,
        [
            "1:10: `version` must be text, but this is a number; put it in quotes",
            "2:7: `flag` must be `true` or `false`, but this is text; take the quotes away",
            "3:8: `limit` must be a whole number, but this is text; take the quotes away",
            "4:8: `ratio` must be a finite number, but this is a number; write a finite number here",
            "5:7: `tags` must be a list, but this is text; write a list here",
            "6:7: `with` must be a mapping, but this is a list; write a mapping here",
            "7:11: `settings` must be a mapping, but this is a number; write a mapping here",
            "8:12: an item of `texts` must be text, but this is a number; put it in quotes",
            "9:8: `count` must be a whole number, but this is a number; write a whole number here",
            "10:7: `name` must be text, but this is a list; write text here",
        ],
    );
}

#[test]
fn out_of_range_integers_are_reported_with_the_range() {
    let node = read("a: 0\nb: -1\nc: 18446744073709551615\nd: 7\n");
    let problems = &mut vec![];
    let mut agent = section(&node, problems);
    assert_eq!(agent.integer("a", 1..=u64::MAX, problems), None);
    assert_eq!(agent.integer("b", 0..=9, problems), None);
    assert_eq!(agent.integer("c", 1..=9, problems), None);
    assert_eq!(agent.integer("d", 0..=7, problems), Some(7));
    let messages: Vec<_> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "`a` must be at least 1, but it is 0",
            "`b` must be at most 9 and not negative, but it is -1",
            "`c` must be from 1 to 9, but it is 18446744073709551615",
        ],
    );
    assert!(
        problems
            .iter()
            .all(|problem| problem.code == "out-of-range" && problem.help.is_some())
    );
}

#[test]
fn section_requires_a_mapping() {
    let problems = &mut vec![];
    assert!(Section::from_node(&read("- 1\n"), "an agent file", problems).is_none());
    assert_eq!(
        shown(problems),
        [
            "agent.yaml:1:1: an agent file must be a mapping, but this is a list [wrong-type]; write a mapping here"
        ],
    );
}

//! Approvals: `interrupt`, `interrupt_before`, and what approves them.

use super::{load, problems, shown};

/// The nodes `a`, `b` and `all b`, in this order, with `keys` before them.
fn file(keys: &str) -> String {
    format!("{keys}nodes: [{{name: a}}, {{name: b}}, {{name: all b}}]\n")
}

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn every_form_of_interrupt_needs_approval_and_warns() {
    for text in [
        &*file("config: {interrupt_before: [a]}\n"),
        &file("interrupt_before: [a]\n"),
        &file("interrupt_before: [a, a]\nconfig: {interrupt_before: [a]}\n"),
        "nodes: [{name: a, interrupt: before}, {name: b}]",
        "nodes: [{name: a, interrupt_before: true}, {name: b}]",
        "nodes: [{name: a, interrupt: before, interrupt_before: true}, {name: b}]",
        "nodes: [{name: b, run: &k before}, {name: a, interrupt: *k}]",
        "nodes: [{name: a, action: x, interrupt: before}]",
        "nodes: [{name: a, steps: [{uses: test.echo, with: {}}], interrupt: before}]",
        "nodes: [{name: a, type: dynamic_parallel, items: [1], fan_in: b, steps: [], interrupt: before}, {name: b}]",
    ] {
        let agent = load(text).unwrap_or_else(|problems| panic!("{text}: {problems}"));
        assert_eq!(agent.unapproved().collect::<Vec<_>>(), ["a"], "{text}");
        let needed = agent.needs_approval().unwrap();
        assert!(!needed.is_warning);
        assert!(
            shown(&agent.warnings).contains(
                "`a` needs approval before it runs [needs-approval]; to approve, add `--approve a` to `cachalot run`"
            ),
            "{text}"
        );
    }
    for text in [
        &*file("config: {interrupt_before: [], interrupt: false}\ninterrupt_before:\n"),
        "nodes: [{name: a, interrupt: , interrupt_before: false}]",
        "nodes: [{name: a, interrupt: after, interrupt_after: true}]",
    ] {
        assert!(load(text).unwrap().needs_approval().is_none(), "{text}");
    }
}

#[test]
fn warning_names_all_nodes_with_approval_flags() {
    let agent = load(&file(
        "config:\n  interrupt_before: [all b, b]\ninterrupt_before: [a]\n",
    ));
    assert_eq!(
        shown(&agent.unwrap().warnings),
        "a.yaml:3:20: `a`, `b` and `all b` need approval before they run [needs-approval]; to approve, add `--approve a --approve b --approve 'all b'` to `cachalot run`"
    );
    let agent = load("nodes: [{name: --a, interrupt: before}, {name: it's, interrupt: before}]");
    let help = agent.unwrap().needs_approval().unwrap().help.unwrap();
    assert_eq!(
        help,
        r"to approve, add `--approve=--a --approve 'it'\''s'` to `cachalot run`"
    );
}

#[test]
fn approvals_of_unknown_nodes_and_wrong_types_are_problems() {
    problems(
        "config:
  interrupt: before
  interrupt_before: [fetc, 1]
interrupt_before: fetch
nodes:
- {name: fetch, interrupt: befor}
- {name: b, interrupt: true}
- {name: c, interrupt_before: [c]}
- {name: d, steps: [{name: e, interrupt: before}, {name: f, interrupt_before: true}]}
- {name: g, type: dynamic_parallel, items: [1], fan_in: h, action: {uses: test.echo, interrupt: before}}
- {name: h, type: while_loop, condition: false, max_iterations: 1, body: [{interrupt: before}]}
",
        &[
            "a.yaml:2:3: `interrupt` in `config` names no node [unsupported]; write `interrupt_before: [NODE]`",
            "a.yaml:3:22: `interrupt_before` names `fetc`, and there is no such node [approval-undefined]; did you mean `fetch`?",
            "a.yaml:3:28: an item of `interrupt_before` must be the name of a node, but this is a number [wrong-type]; write the name of a node here",
            "a.yaml:4:19: `interrupt_before` must be a list, but this is text [wrong-type]; write a list here",
            "a.yaml:6:28: there is no `interrupt: befor` [bad-value]; write `before` or `after`",
            "a.yaml:7:24: `interrupt` must be `before` or `after`, but this is true or false [wrong-type]; write `before` or `after` here",
            "a.yaml:8:31: `interrupt_before` of a node must be `true` or `false`, but this is a list [wrong-type]; write `true` or `false` here",
            "a.yaml:9:31: a step does not wait for approval [unsupported]; write `interrupt: before` in the node that the step belongs to",
            "a.yaml:9:61: a step does not wait for approval [unsupported]; write `interrupt: before` in the node that the step belongs to",
            "a.yaml:10:86: a step does not wait for approval [unsupported]; write `interrupt: before` in the node that the step belongs to",
            "a.yaml:11:76: a step does not wait for approval [unsupported]; write `interrupt: before` in the node that the step belongs to",
        ],
    );
}

#[test]
fn names_approve_their_nodes_and_all_approves_every_node() {
    let text = file("interrupt_before: [a, all b]\n");
    let approved = |given: &[&str]| -> Vec<String> {
        let mut agent = load(&text).unwrap();
        agent.approve(&names(given)).unwrap();
        let left: Vec<String> = agent.unapproved().map(str::to_owned).collect();
        assert_eq!(agent.needs_approval().is_some(), !left.is_empty());
        assert_eq!(agent.warnings.len(), usize::from(!left.is_empty()));
        left
    };
    assert_eq!(approved(&[]), ["a", "all b"]);
    assert_eq!(approved(&["a", "b"]), ["all b"]);
    assert!(approved(&["all b", "a", "a"]).is_empty());
    assert!(approved(&["all"]).is_empty());
}

#[test]
fn all_is_a_node_name_where_such_a_node_exists() {
    let mut agent = load("interrupt_before: [a, all]\nnodes: [{name: a}, {name: all}]").unwrap();
    agent.approve(&names(&["all"])).unwrap();
    assert_eq!(agent.unapproved().collect::<Vec<_>>(), ["a"]);
    let mut agent = load("interrupt_before: [a]\nnodes: [{name: a}, {name: all}]").unwrap();
    agent.approve(&names(&["all"])).unwrap();
    assert_eq!(agent.unapproved().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn an_approval_of_an_unknown_node_approves_nothing() {
    let mut agent = load("nodes: [{name: fetch, interrupt: before}, {name: b}]").unwrap();
    let unknown = agent.approve(&names(&["fetch", "fetc", "x,y", "ALL", ""]));
    assert_eq!(
        shown(&unknown.unwrap_err()).lines().collect::<Vec<_>>(),
        [
            "`--approve` names `fetc`, and there is no such node [approval-undefined]; did you mean `fetch`?",
            "`--approve` names `x,y`, and there is no such node [approval-undefined]; the nodes are fetch, b, all",
            "`--approve` names `ALL`, and there is no such node [approval-undefined]; did you mean `all`?",
            "`--approve` names ``, and there is no such node [approval-undefined]; did you mean `b`?",
        ]
    );
    assert_eq!(agent.unapproved().collect::<Vec<_>>(), ["fetch"]);
}

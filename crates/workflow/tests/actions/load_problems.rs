//! Problems of literal arguments, reported when a file is loaded.

use cachalot_core::Problem;
use cachalot_core::tree::parse;
use cachalot_workflow::actions::builtin;
use cachalot_workflow::format::load;

fn problems(action: &str, with: &str) -> Vec<Problem> {
    let registry = builtin();
    let node = parse("agent.yaml", with).unwrap();
    registry.get(action).unwrap().check(Some(&node), &registry)
}

/// The one problem: its code, and where it is.
fn refused(action: &str, with: &str) -> (&'static str, u32, u32) {
    let problems = problems(action, with);
    let [problem] = problems.as_slice() else {
        panic!("{action} {with}: {problems:?}")
    };
    assert!(problem.help.is_some(), "{problem}");
    let place = problem.place.as_ref().unwrap();
    (problem.code, place.line, place.column)
}

/// The problems of a file with one node, whose arguments are indented by six.
fn loaded(action: &str, with: &str) -> Vec<Problem> {
    let with = with.replace('\n', "\n      ");
    let text = format!("nodes:\n  - name: n\n    uses: {action}\n    with:\n      {with}\n");
    let (environment, builtins) = (Default::default(), Default::default());
    load("agent.yaml", &text, &builtin(), &environment, &builtins)
        .err()
        .unwrap_or_default()
}

#[test]
fn out_of_range_durations_are_problems() {
    for (action, with, code) in [
        ("shell.run", "command: [x]\ntimeout: 0", "out-of-range"),
        ("shell.run", "command: [x]\ntimeout: -1.5", "out-of-range"),
        ("shell.run", "command: [x]\ntimeout: '0'", "out-of-range"),
        ("shell.run", "command: [x]\ntimeout: 604801", "out-of-range"),
        ("shell.run", "command: [x]\ntimeout: 8d", "out-of-range"),
        ("shell.run", "command: [x]\ntimeout: long", "bad-value"),
        ("shell.run", "command: [x]\ntimeout: [1]", "wrong-type"),
        ("http.get", "url: u\ntimeout: 0", "out-of-range"),
        ("http.post", "url: u\ntimeout: -3", "out-of-range"),
        ("web.search", "query: q\ntimeout: 0", "out-of-range"),
        (
            "cache.wrap",
            "action: json.parse\nttl    : 0s\nargs: {text: x}",
            "out-of-range",
        ),
    ] {
        let problems = loaded(action, with);
        let [problem] = problems.as_slice() else {
            panic!("{action} {with}: {problems:?}")
        };
        let place = problem.place.as_ref().unwrap();
        assert_eq!(
            (problem.code, place.line, place.column),
            (code, 6, 16),
            "{with}"
        );
        assert!(problem.help.is_some(), "{problem}");
    }
    for fine in ["0.5", "'30'", "30s", "'{{ state.n }}'", "~"] {
        let with = format!("command: [x]\ntimeout: {fine}");
        assert_eq!(loaded("shell.run", &with), [], "{fine}");
    }
}

#[test]
fn out_of_range_numbers_are_problems() {
    for (action, with) in [
        ("shell.run", "output_limit: 0"),
        ("file.read", "max_bytes: -1"),
        ("json.stringify", "indent: 17"),
        ("web.search", "limit: 101"),
        ("ltm.search", "limit: 0"),
    ] {
        assert_eq!(refused(action, with).0, "out-of-range", "{with}");
    }
}

#[test]
fn unknown_keywords_are_problems() {
    assert_eq!(
        refused("storage.hash", "{path: f, algorithm: sha265}"),
        ("bad-value", 1, 22)
    );
    let problem = &problems("storage.hash", "algorithm: sha265")[0];
    assert!(
        problem.help.as_ref().unwrap().contains("sha256"),
        "{problem}"
    );
    assert_eq!(refused("file.read", "encoding: utf-16").0, "bad-value");
    for (action, fine) in [
        ("storage.hash", "algorithm: blake2b"),
        ("storage.hash", "algorithm: '{{ state.how }}'"),
        ("file.read", "encoding: ISO-8859-1"),
    ] {
        assert!(problems(action, fine).is_empty(), "{fine}");
    }
}

#[test]
fn unparsable_texts_are_problems() {
    assert_eq!(
        refused("json.transform", "{data: 1, expression: 'a['}"),
        ("bad-value", 1, 23)
    );
    let problem = &problems("json.transform", "expression: 'a['")[0];
    assert!(problem.message.contains("column"), "{problem}");
    assert!(problems("json.transform", "expression: 'a[?b == `1`].{x: c}'").is_empty());
    assert!(problems("json.transform", "expression: '{{ state.e }}['").is_empty());
    assert_eq!(refused("file.glob", "pattern: 'a/b['").0, "bad-value");
    assert!(problems("file.glob", "pattern: '**/*.{md,txt}'").is_empty());
    assert_eq!(
        refused("csv.parse", "{text: t, delimiter: ';;'}"),
        ("bad-value", 1, 22)
    );
}

#[test]
fn exactly_one_of_exclusive_arguments_is_required() {
    assert_eq!(refused("csv.parse", "header: true").0, "missing-key");
    assert_eq!(refused("csv.parse", "{text: ~}").0, "missing-key");
    assert_eq!(
        refused("csv.parse", "{text: t, path: p}"),
        ("bad-value", 1, 17)
    );
    assert_eq!(refused("llamaextract.extract", "file: f").0, "missing-key");
    let both = "{file: f, agent_id: a, agent_name: b}";
    assert_eq!(refused("llamaextract.extract", both), ("bad-value", 1, 36));
    assert_eq!(
        refused("http.post", "{url: u, json: {a: 1}, body: b}"),
        ("bad-value", 1, 30)
    );
    assert_eq!(
        refused("http.post", "{url: u, json: {a: 1}, form: {}}"),
        ("bad-value", 1, 30)
    );
    let registry = builtin();
    let bare = registry.get("csv.parse").unwrap().check(None, &registry);
    assert_eq!(bare[0].code, "missing-key");
    for (action, fine) in [
        ("csv.parse", "text: ''"),
        ("csv.parse", "path: '{{ state.p }}'"),
        ("csv.parse", "{path: f, text: '{{ state.may_be_null }}'}"),
        ("csv.parse", "'{{ state.all }}'"),
        ("llamaextract.extract", "{file: f, schema: {}}"),
        ("llamaextract.extract", "{file: f, schema: {}, agent_id: a}"),
        ("http.post", "{url: u, json: {}, body: ~}"),
        ("http.post", "url: u"),
    ] {
        assert!(problems(action, fine).is_empty(), "{action} {fine}");
    }
}

#[test]
fn headers_of_the_connection_are_problems() {
    for action in ["http.get", "http.post"] {
        let with = "url: u\nheaders:\n  accept: x\n  Host: internal";
        assert_eq!(refused(action, with), ("bad-value", 4, 3));
        let with = "url: u\nheaders: {'{{ x }}': y, Authorization: z}";
        assert!(problems(action, with).is_empty());
        // The description names what is refused.
        let registry = builtin();
        let about = registry.get(action).unwrap().metadata();
        let described = about.parameter("headers").unwrap().doc.to_lowercase();
        for name in cachalot_storage::CONNECTION_HEADERS {
            assert!(described.contains(&format!("`{name}`")), "{name}");
        }
        assert!(described.contains("`proxy-*`"));
    }
}

//! Searches in documents: what is embedded, paid for and found.

use serde_json::Value;

use crate::provider::Provider;
use crate::support::{CommandOutput, Home};

/// Searches for what the user asks about, and repeats the result.
const SCRIPT: &str = r#"
rules:
  - user: 'search (.*)'
    tools: [whales]
    steps:
      - tool_calls: [{name: whales, arguments: {query: '{{1}}'}}]
      - text: 'It says: {{last_result}}'
"#;

const TEAM: &str = r#"
providers: {openai: {format: chat}}
agents:
  root:
    model: openai/gpt-4o
    instruction: Search.
    toolsets: [{type: rag, ref: whales}]
rag:
  whales:
    tool: {description: Facts about whales}
    docs: [./docs, guide.txt]
    strategies:
      - type: chunked-embeddings
        embedding_model: openai/text-embedding-3-small
        threshold: 0.2
        limit: 2
        chunking: {size: 60, overlap: 0, respect_word_boundaries: true}
"#;

fn home(team: &str) -> Home {
    let home = Home::new();
    home.write("agent.yaml", team);
    home.write(
        "docs/deep.md",
        "Sperm whales dive very deep to hunt squid.\n",
    );
    home.write(
        "docs/song.md",
        "Humpback males sing long songs in winter.\n",
    );
    home.write("docs/.gitignore", "ignored.md\n");
    home.write("docs/ignored.md", "Sperm whales dive very deep, too.\n");
    home.write("docs/picture.bin", b"\0dive deep");
    home.write("guide.txt", "Whales are mammals and breathe air.\n");
    home
}

fn ask(home: &Home, provider: &Provider, arguments: &[&str]) -> CommandOutput {
    let arguments = [&["agent.yaml"], arguments].concat();
    home.ask(provider, &arguments, "search how deep do sperm whales dive")
}

/// The texts of each request for embeddings.
fn embedded(provider: &Provider) -> Vec<Vec<String>> {
    let requests = provider.received();
    let requests = requests
        .iter()
        .filter(|request| request.path == "/v1/embeddings");
    let texts = requests.map(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["model"], "text-embedding-3-small", "{body}");
        let texts = body["input"].as_array().unwrap().iter();
        texts
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    });
    texts.collect()
}

#[test]
fn documents_are_found_by_similarity_and_embedded_once() {
    let (home, provider) = (home(TEAM), Provider::scripted(SCRIPT));
    let ran = ask(&home, &provider, &[]).ok();
    assert!(
        ran.stdout
            .starts_with("It says: --- docs/deep.md:1 (score 0."),
        "{ran}"
    );
    assert!(!ran.stdout.contains("docs/song.md"), "{ran}");
    let mut first = embedded(&provider);
    first.sort();
    assert_eq!(
        first,
        [
            vec!["Humpback males sing long songs in winter.\n".to_owned()],
            vec!["Sperm whales dive very deep to hunt squid.\n".to_owned()],
            vec!["Whales are mammals and breathe air.\n".to_owned()],
            vec!["how deep do sperm whales dive".to_owned()],
        ]
    );
    // Another process, with the same store.
    let again = ask(&home, &provider, &[]).ok();
    assert_eq!(again.stdout, ran.stdout);
    assert_eq!(embedded(&provider).len(), 4, "{again}");
}

#[test]
fn changed_document_is_embedded_anew_and_no_other() {
    let (home, provider) = (home(TEAM), Provider::scripted(SCRIPT));
    ask(&home, &provider, &[]).ok();
    home.write("docs/song.md", "Sperm whales dive how deep? Very.\n");
    home.write("docs/new.md", "Blue whales are large.\n");
    let ran = ask(&home, &provider, &[]).ok();
    assert!(ran.stdout.contains("--- docs/song.md:1"), "{ran}");
    let mut later = embedded(&provider).split_off(4);
    later.sort();
    let changed = [
        "Blue whales are large.\n",
        "Sperm whales dive how deep? Very.\n",
    ];
    assert_eq!(later, changed.map(|text| vec![text.to_owned()]));
    // A document under another name has the same vectors.
    std::fs::rename(home.join("docs/new.md"), home.join("docs/moved.md")).unwrap();
    ask(&home, &provider, &[]).ok();
    assert_eq!(embedded(&provider).len(), 6);
}

#[test]
fn another_model_or_division_has_other_vectors() {
    let (home, provider) = (home(TEAM), Provider::scripted(SCRIPT));
    ask(&home, &provider, &[]).ok();
    home.write("agent.yaml", TEAM.replace("size: 60", "size: 20"));
    ask(&home, &provider, &[]).ok();
    let later = embedded(&provider).split_off(4);
    assert_eq!(later.len(), 3, "the query was embedded before: {later:?}");
    assert!(
        later.concat().iter().all(|text| text.len() <= 20),
        "{later:?}"
    );
}

#[test]
fn results_are_cached_until_a_document_changes() {
    let script = SCRIPT.replace(
        "      - text:",
        "      - tool_calls: [{name: whales, arguments: {query: '{{1}}'}}]\n      - text:",
    );
    let team = format!("{TEAM}tools: {{cacheToolResults: true}}\n");
    let (home, provider) = (home(&team), Provider::scripted(&script));
    let ran = ask(&home, &provider, &[]).ok();
    assert!(ran.stderr.contains("saved 1 tool call"), "{ran}");
}

#[test]
fn search_by_words_needs_no_model() {
    let team = TEAM.replace("chunked-embeddings", "bm25").replace(
        "        embedding_model: openai/text-embedding-3-small\n",
        "",
    );
    let (home, provider) = (home(&team), Provider::scripted(SCRIPT));
    let ran = ask(&home, &provider, &[]).ok();
    let first = "It says: --- docs/deep.md:1 (score ";
    assert!(ran.stdout.starts_with(first), "{ran}");
    assert!(!ran.stdout.contains("docs/song.md"), "{ran}");
    assert_eq!(embedded(&provider).len(), 0);
}

#[test]
fn results_of_two_strategies_are_combined() {
    let team = TEAM.replace(
        "    docs: [./docs",
        "    results: {limit: 1}\n    docs: [./docs",
    );
    let team = team + "      - {type: bm25, limit: 3, chunking: {size: 60, overlap: 0}}\n";
    let (home, provider) = (home(&team), Provider::scripted(SCRIPT));
    let ran = ask(&home, &provider, &[]).ok();
    // It is the first one of both: twice 1 / (60 + 1).
    let first = "It says: --- docs/deep.md:1 (score 0.033)";
    assert!(ran.stdout.starts_with(first), "{ran}");
    assert_eq!(ran.stdout.matches("---").count(), 1, "{ran}");
}

#[test]
fn secrets_and_denied_documents_are_not_sent() {
    let team = format!("{TEAM}permissions: {{deny: ['whales:path=docs/song.md']}}\n");
    let (home, provider) = (home(&team), Provider::scripted(SCRIPT));
    let key = "sk-deep-4f9a8b7c6d5e4f3a2b1c";
    home.write("guide.txt", format!("The key is {key}.\n"));
    let question = b"search how deep do sperm whales dive";
    let ran = home.ask_with(&provider, &["agent.yaml"], question, |command| {
        command.env("OPENAI_API_KEY", key);
    });
    let ran = ran.ok();
    assert!(
        ran.stdout.contains("because it holds a secret: guide.txt"),
        "{ran}"
    );
    assert!(ran.stdout.contains("1 entry is left out"), "{ran}");
    let sent = embedded(&provider).concat();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(!sent.concat().contains(key), "{sent:?}");
}

#[test]
fn faults_are_told_to_the_model_and_nothing_is_stored() {
    let wrong = TEAM.replace("threshold: 0.2", "vector_dimensions: 7");
    let (home, provider) = (home(&wrong), Provider::scripted(SCRIPT));
    for _ in 0..2 {
        let ran = ask(&home, &provider, &[]).ok();
        assert!(
            ran.stdout
                .contains("and not of 7: correct `vector_dimensions`"),
            "{ran}"
        );
    }
    assert_eq!(embedded(&provider).len(), 2);
    home.write("agent.yaml", TEAM.replace("./docs", "./dcos"));
    let ran = ask(&home, &provider, &[]).ok();
    assert!(ran.stdout.contains("did you mean `docs`?"), "{ran}");
    home.write("agent.yaml", TEAM.replace("./docs", "../"));
    let ran = ask(&home, &provider, &[]).ok();
    assert!(ran.stdout.contains("outside"), "{ran}");
}

#[test]
fn a_used_up_budget_prevents_requests_for_vectors() {
    let team = format!("{TEAM}budget: {{max_tokens: 1}}\n");
    let (home, provider) = (home(&team), Provider::scripted(SCRIPT));
    ask(&home, &provider, &[]);
    // The first request, of the question, uses it up: the documents are not sent.
    assert_eq!(embedded(&provider), [["how deep do sperm whales dive"]]);
}

#[test]
fn problems_of_sources_are_reported() {
    let problems = |team: &str| {
        let home = Home::new();
        home.write("agent.yaml", team);
        let document = home.run(&["validate", "agent.yaml", "--json"]).json();
        let listed = document["problems"].as_array().unwrap().clone();
        let text =
            |problem: &Value, key: &str| problem[key].as_str().unwrap_or_default().to_owned();
        let told = listed.iter().map(|problem| {
            format!(
                "{}: {}; {}",
                text(problem, "code"),
                text(problem, "message"),
                text(problem, "help")
            )
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(problems(TEAM), Vec::<String>::new());
    let older = TEAM.replace("toolsets: [{type: rag, ref: whales}]", "rag: [whales]");
    assert_eq!(problems(&older), Vec::<String>::new());
    for (from, to, told) in [
        (
            "ref: whales",
            "ref: wales",
            "unknown-group: `ref` names `wales`",
        ),
        (
            "chunked-embeddings",
            "bm25",
            "unknown-key: unknown key `embedding_model` in the strategy `bm25`",
        ),
        (
            "boundaries: true}\n",
            "boundaries: true}\n      - {type: bm25}\n      - {type: bm25}\n",
            "unsupported-strategy: a source of `rag` has two strategies of one type",
        ),
        (
            "    tool:",
            "    results: {fusion: {strategy: weighted}}\n    tool:",
            "bad-value: `strategy` cannot be `weighted`",
        ),
        (
            "chunked-embeddings",
            "semantic-embeddings",
            "unsupported-strategy: the strategy `semantic-embeddings`",
        ),
        (
            "chunked-embeddings",
            "x",
            "write `type: chunked-embeddings`",
        ),
        (
            "openai/text-embedding-3-small",
            "nowhere/x",
            "unknown-model: ",
        ),
        (
            "overlap: 0",
            "overlap: 60",
            "out-of-range: `overlap` must be less than `size`",
        ),
        (
            "docs: [./docs, guide.txt]",
            "docs: []",
            "missing-key: a source of `rag` needs `docs`",
        ),
        ("threshold: 0.2", "treshold: 0.2", "unknown-key: "),
        (
            "tool: {",
            "tool: {name: shell, ",
            "a tool of the file cannot be called `shell`",
        ),
    ] {
        let found = problems(&TEAM.replace(from, to));
        assert_eq!(found.len(), 1, "{to}: {found:#?}");
        assert!(found[0].contains(told), "{to}: {found:#?}");
    }
}

//! Every example runs, and does what it is there to show.

use serde_json::{Value, json};

use crate::files;
use crate::home::{Home, state};

const INVOICE: &str = "file_path=examples/data/invoice-2026-0417.pdf";

/// The examples, by the tests below that run them. `examples/data/attacks.yaml` is a script of the simulator,
/// which `cli/guarded.rs` runs.
const TRIED: &[&str] = &[
    "examples/assistant_with_review.yaml",
    "examples/coder.yaml",
    "examples/current_models.yaml",
    "examples/data/attacks.yaml",
    "examples/document_extraction.yaml",
    "examples/fan_out.yaml",
    "examples/faq.yaml",
    "examples/gateway/gateway.yaml",
    "examples/guarded.yaml",
    "examples/invalid/python_syntax.yaml",
    "examples/invalidation.yaml",
    "examples/mcp/files.yaml",
    "examples/story/cache_management.yaml",
    "examples/story/cached_llm_agent.yaml",
    "examples/story/document_extraction.yaml",
    "examples/summarize.yaml",
    "examples/tool_in_workflow.yaml",
    "examples/translate_cached.yaml",
    "examples/while_loop_lua.yaml",
];

/// Runs an example that must end well; its final state and what it said.
fn run(home: &Home, file: &str, inputs: &[&str]) -> (Value, String) {
    let mut arguments = vec!["run", file];
    for input in inputs {
        arguments.extend(["--input", input]);
    }
    let ended = home.cachalot(&arguments);
    assert_eq!(ended.code, 0, "{file}: {}", ended.stderr);
    (state(&ended), ended.stderr)
}

/// The files of `examples/docker_agent`, without their ends, and the codes of their warnings.
const DOCKER_AGENT: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("commands", &[]),
    ("docker_mcp", &[]),
    ("fallback", &[]),
    ("fetch", &[]),
    ("filesystem", &[]),
    ("force_handoff", &[]),
    ("handoffs", &[]),
    ("models", &[]),
    ("permissions", &["permission-order"]),
    ("script", &["runs-command", "runs-command"]),
    ("shared_parts", &[]),
    ("skills", &[]),
    ("toolsets", &["no-effect"]),
    ("variables", &["unset-variable"]),
    ("welcome_message", &[]),
];

#[test]
fn every_example_file_has_a_test() {
    let of_docker_agent = DOCKER_AGENT.iter();
    let of_docker_agent =
        of_docker_agent.map(|(name, _)| format!("examples/docker_agent/{name}.yaml"));
    let tried = TRIED.iter().map(|file| (*file).to_owned());
    let mut tried: Vec<String> = tried.chain(of_docker_agent).collect();
    tried.sort();
    assert_eq!(files::examples(), tried);
}

#[test]
fn every_docker_agent_example_is_valid_and_answers() {
    let home = Home::new();
    for (name, warnings) in DOCKER_AGENT {
        let file = format!("examples/docker_agent/{name}.yaml");
        let checked = home.cachalot(["validate", "--json", &file]);
        assert_eq!(checked.code, 0, "{file}: {}", checked.stdout);
        let warned: Value = serde_json::from_str(&checked.stdout).unwrap();
        let warned = warned["warnings"].as_array().unwrap();
        let codes: Vec<&str> = warned
            .iter()
            .map(|problem| problem["code"].as_str().unwrap())
            .collect();
        assert_eq!(codes, *warnings, "{file}: {}", checked.stdout);
        if *name == "docker_mcp" && Home::has("docker") {
            // Docker would fetch the servers.
            continue;
        }
        let question = "How deep can a sperm whale dive?";
        let ended = home.shell(&format!("echo '{question}' | cachalot chat {file}"));
        assert_eq!(ended.code, 0, "{file}: {}", ended.stderr);
        assert!(!ended.stdout.trim().is_empty(), "{file}: {}", ended.stderr);
        match *name {
            "docker_mcp" => assert!(
                ended.stderr.contains("without Docker: `command: uvx`"),
                "{}",
                ended.stderr
            ),
            "variables" => assert!(
                ended.stderr.contains("`EXAMPLE_TRACKER_TOKEN` is not set"),
                "{}",
                ended.stderr
            ),
            _ => {}
        }
    }
}

#[test]
fn command_of_an_agent_is_run_by_its_name() {
    let home = Home::new();
    let file = "examples/docker_agent/commands.yaml";
    for (line, code, expected) in [
        ("/summary in one sentence", 0, ""),
        (
            "/plan the next survey",
            0,
            "planner continues the conversation",
        ),
        ("/docs", 1, "https://example.com/docs?session="),
        ("/plan", 1, "sends no message"),
        // The command of the shell needs an approval, and there is no user.
        ("/changes", 1, "the tool `shell` of the command failed"),
    ] {
        let ended = home.shell(&format!("echo '{line}' | cachalot chat {file}"));
        assert_eq!(ended.code, code, "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{line}: {}", ended.stderr);
    }
}

#[test]
fn invalid_python_is_refused_with_its_line() {
    let home = Home::new();
    let file = "examples/invalid/python_syntax.yaml";
    for command in ["validate", "run"] {
        let ended = home.cachalot([command, file]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("python_syntax.yaml:8"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("script-syntax"), "{}", ended.stderr);
    }
}

#[test]
fn document_extraction_reads_the_document_once() {
    let home = Home::new();
    let file = "examples/document_extraction.yaml";
    let (first, said) = run(&home, file, &[INVOICE]);
    assert!(
        said.contains("Cache miss - the document was read"),
        "{said}"
    );
    assert!(said.contains("paid 1 call"), "{said}");
    assert_eq!(
        first["invoice"],
        json!({
            "number": "2026-0417", "date": "2026-04-17", "due": "2026-05-17",
            "customer": "Institute for Marine Ecology, Bremerhaven",
            "subtotal": 9_845.6, "vat": 1_870.66, "total": 11_716.26
        })
    );
    assert_eq!(first["document"]["pages"], 3);
    let (second, said) = run(&home, file, &[INVOICE]);
    assert!(said.contains("Cache hit!"), "{said}");
    assert!(said.contains("paid 0 calls, 0 s"), "{said}");
    assert_eq!(second, first);
    std::fs::copy(
        home.work().join("examples/data/invoice-2026-0417.pdf"),
        home.work().join("copy.pdf"),
    )
    .unwrap();
    let (_, said) = run(&home, file, &["file_path=copy.pdf"]);
    assert!(
        said.contains("Cache hit!"),
        "a copy is the same document: {said}"
    );
}

#[test]
fn fan_out_reads_each_note_once() {
    let home = Home::new();
    let file = "examples/fan_out.yaml";
    let (first, said) = run(&home, file, &[]);
    assert!(said.contains("4 notes, 0 of them read before"), "{said}");
    let titles: Vec<&str> = first["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["title"].as_str().unwrap())
        .collect();
    assert_eq!(
        titles,
        ["Calibration", "Clicks", "Depth", "Logbook, 2026-06-03"]
    );
    let (_, said) = run(&home, file, &["pattern=examples/data/notes/*.md"]);
    assert!(said.contains("2 notes, 2 of them read before"), "{said}");
    home.write("examples/data/notes/depth.md", "# Depth\n\nDeeper.\n");
    let (_, said) = run(&home, file, &[]);
    assert!(said.contains("4 notes, 3 of them read before"), "{said}");
}

#[test]
fn lua_loop_adds_up() {
    let (state, _) = run(&Home::new(), "examples/while_loop_lua.yaml", &[]);
    assert_eq!(state, json!({ "count": 5, "sum": 15 }));
}

#[test]
fn mcp_tool_is_called_once() {
    let home = Home::new();
    let file = "examples/tool_in_workflow.yaml";
    let (first, said) = run(&home, file, &[]);
    assert!(said.contains("paid 2 calls"), "{said}");
    let definition = &first["definition"]["result"];
    assert!(
        definition.as_str().unwrap().starts_with("A record of"),
        "{first}"
    );
    let (second, said) = run(&home, file, &[]);
    assert!(said.contains("paid 0 calls"), "{said}");
    assert_eq!(second["definition"]["result"], *definition);
}

#[test]
fn invalidation_erases_the_named_entries() {
    let (state, said) = run(&Home::new(), "examples/invalidation.yaml", &[]);
    assert!(said.contains("would erase 2"), "{said}");
    assert_eq!(state["total"], 42.5);
    let erased = [
        "cache:invalidation:orders:sum",
        "cache:invalidation:orders:parsed",
    ];
    assert_eq!(state["erased"], json!(erased));
    assert_eq!(state["would_erase"].as_array().unwrap().len(), 2);
    assert_eq!(state["still_there"], false);
}

/// The extraction agent of the story against a stand-in for LlamaCloud, and its management agent.
#[test]
fn story_files_run_unchanged() {
    let home = Home::new();
    let file = "examples/story/document_extraction.yaml";
    let inputs = [INVOICE, "agent_name=invoices"];
    let (first, said) = run(&home, file, &inputs);
    assert!(
        said.contains("Cache miss - fresh extraction performed"),
        "{said}"
    );
    assert_eq!(
        first["data"],
        json!({ "invoice_number": "2026-0417", "total": 11_716.26 })
    );
    let (second, said) = run(&home, file, &inputs);
    assert!(said.contains("Cache hit! Created at: 20"), "{said}");
    assert_eq!(
        (second["data"].clone(), home.extractions()),
        (first["data"].clone(), 1)
    );
    let (managed, _) = run(&home, "examples/story/cache_management.yaml", &[]);
    assert_eq!(managed["deleted"], 1);
    run(&home, file, &inputs);
    assert_eq!(home.extractions(), 2);
}

/// The translation agent of the story, and the example that needs no key.
#[test]
fn translation_is_paid_once() {
    for file in [
        "examples/story/cached_llm_agent.yaml",
        "examples/translate_cached.yaml",
    ] {
        let home = Home::new();
        let inputs = ["target_language=French", "text=The whale dives."];
        let (first, said) = run(&home, file, &inputs);
        let translated = &first["translation_result"];
        assert_eq!(
            translated["result"]["content"],
            "[simulated French] The whale dives."
        );
        assert!(said.contains("paid 1 call"), "{said}");
        let (second, said) = run(&home, file, &inputs);
        let again = &second["translation_result"];
        assert_eq!(
            (&again["_cache_hit"], &again["result"]),
            (&json!(true), &translated["result"])
        );
        let saved = said.split_once("saved ").map_or("", |(_, saved)| saved);
        assert!(
            said.contains("paid 0 calls") && saved.contains('$'),
            "{said}"
        );
        assert_eq!(home.model_calls(), 1);
    }
}

#[test]
fn summary_is_paid_once() {
    let home = Home::new();
    let file = "examples/summarize.yaml";
    let (first, said) = run(&home, file, &[]);
    assert!(said.contains("paid 1 call"), "{said}");
    let (second, said) = run(&home, file, &[]);
    assert!(said.contains("paid 0 calls"), "{said}");
    assert_eq!(second["summary"]["result"], first["summary"]["result"]);
    assert_eq!(home.model_calls(), 1);
}

/// The coder of the examples reads, edits and looks again.
#[test]
#[cfg(unix)]
fn coder_edits_files() {
    let home = Home::new();
    let file = "examples/data/draft.md";
    let before = "# Sperm whales\n\nThe sperm whale is a whale.\nTODO: say how deep it dives.\n";
    home.write(file, before);
    let ended = home.shell(&format!(
        "echo 'Finish the TODO in {file}' | cachalot chat examples/coder.yaml"
    ));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stdout.trim().is_empty());
    let after = std::fs::read_to_string(home.work().join(file)).unwrap();
    assert_eq!(after, before.replace("TODO", "DONE"), "{}", ended.stderr);
    assert!(home.model_calls() > 2);
}

/// Models that refuse a budget, sampling parameters or Chat Completions are asked in the way they accept.
#[test]
#[cfg(unix)]
fn current_models_call_tools_and_think() {
    let home = Home::new();
    let file = "examples/data/draft.md";
    home.write(file, "# Sperm whales\n\nTODO: say how deep it dives.\n");
    let chat = |question: &str, arguments: &str| {
        let ended = home.shell(&format!(
            "echo '{question}' | cachalot chat -v examples/current_models.yaml {arguments}"
        ));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended
    };
    let edited = chat(&format!("Finish the TODO in {file}"), "");
    let after = std::fs::read_to_string(home.work().join(file)).unwrap();
    assert!(after.contains("DONE: say how deep"), "{}", edited.stderr);
    let calls = home.model_calls();
    assert!(calls > 2);
    let thought = chat("How deep can a sperm whale dive?", "--agent thinker");
    assert!(
        thought.stdout.contains("[simulated claude-opus-4-8]"),
        "{}",
        thought.stdout
    );
    assert!(thought.stderr.contains("thinking | "), "{}", thought.stderr);
    assert_eq!(home.model_calls(), calls + 1);
}

/// The second time, the question is not a model's any more.
#[test]
fn faq_requests_a_question_once() {
    let home = Home::new();
    let ask = |question: &str| {
        let ended = home.shell(&format!(
            "echo '{question}' | cachalot chat examples/faq.yaml"
        ));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended
    };
    let first = ask("How deep can a sperm whale dive?");
    let again = ask("  how deep can a SPERM whale dive?");
    assert_eq!(again.stdout, first.stdout);
    assert!(again.stderr.contains("answered before"), "{}", again.stderr);
    assert!(again.stderr.contains("saved 1 answer"), "{}", again.stderr);
    assert_eq!(home.model_calls(), 1);
}

/// A review reads from the provider's cache what the chat has sent, and may not use the shell.
#[test]
fn assistant_is_reviewed_in_the_background() {
    let home = Home::new();
    let ended = home.shell(
        "echo 'How deep can a sperm whale dive?' | cachalot chat examples/assistant_with_review.yaml",
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let reported = |part: &str| ended.stderr.contains(part);
    assert!(reported("review: stored 1 memory · "), "{}", ended.stderr);
    assert!(
        reported(" tokens read from the provider's cache · <$0.01 · "),
        "{}",
        ended.stderr
    );
    assert!(reported(" · denied: shell"), "{}", ended.stderr);
}

#[test]
fn guarded_agent_answers() {
    let home = Home::new();
    let ended = home.shell("echo 'Attack.' | cachalot chat examples/guarded.yaml");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(home.model_calls(), 1);
}

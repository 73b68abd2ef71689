//! `cachalot models`: the catalog.

use crate::support::Home;

#[test]
fn models_prints_every_known_field_of_a_model() {
    let ran = Home::new().run(&["models", "claude-opus-4-8"]).ok();
    let rows: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .collect()
        })
        .collect();
    for row in [
        &["anthropic/claude-opus-4-8"][..],
        &["endpoints", "messages"],
        &["thinking", "adaptive"],
        &["efforts", "low, medium, high, xhigh, max"],
        &["default effort", "high"],
        &["temperature, top_p", "no"],
        &["context", "1,000,000 tokens"],
        &["minimum cacheable", "1,024 tokens"],
        &["cache write, 5 min", "$6.25"],
        &["cache write, 1 h", "$10.00"],
    ] {
        assert!(rows.iter().any(|found| found == row), "{row:?}\n{ran}");
    }
}

#[test]
fn the_list_fits_a_narrow_terminal_and_can_be_narrowed_to_a_provider() {
    let home = Home::new();
    let all = home.run(&["models"]).ok();
    assert!(all.stdout.lines().count() > 200, "{all}");
    let widest = all.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
    let one = home.run(&["models", "--provider", "anthropic"]).ok();
    assert!(one.stdout.contains("\n\nanthropic "), "{one}");
    assert!(one.stdout.contains("\n  claude-haiku-5-5 "), "{one}");
    assert!(!one.stdout.contains("gpt-"), "{one}");
}

#[test]
fn models_json_has_the_same_fields_and_null_for_unknown() {
    let home = Home::new();
    let json = home
        .run(&["models", "--json", "openai/gpt-5.6-terra"])
        .ok()
        .json();
    assert_eq!(json.as_array().unwrap().len(), 1);
    let model = &json[0];
    assert_eq!(model["endpoints"], serde_json::json!(["chat", "responses"]));
    assert_eq!(model["sampling"], serde_json::Value::Null);
    assert_eq!(model["price"]["above"]["tokens"], 272_000);
    assert_eq!(model["price"]["cache_read"], 0.2);
    // A snapshot is its model.
    let snapshot = home
        .run(&["models", "--json", "claude-haiku-4-5-20251001"])
        .ok()
        .json();
    assert_eq!(snapshot[0]["model"], "claude-haiku-4-5");
}

#[test]
fn announced_prices_are_shown_with_their_dates() {
    let home = Home::new();
    home.write(
        "own.yaml",
        "models: {lab: {whale: {input: 1, output: 2, changes: [{from: 9999-01-02, input: 3, output: 4}]}}}",
    );
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        let output = command.env("CACHALOT_MODELS", "own.yaml").output();
        crate::support::CommandOutput::from(output.unwrap()).ok()
    };
    let one = run(&["models", "lab/whale"]);
    assert!(one.stdout.contains("from 9999-01-02"), "{one}");
    assert!(one.stdout.contains("$3.00"), "{one}");
    let all = run(&["models"]);
    let expected = "Other prices from 9999-01-02\n  whale\n";
    assert!(all.stdout.contains(expected), "{all}");
    let json = run(&["models", "--json", "lab/whale"]).json();
    let change = &json[0]["price"]["changes"][0];
    assert_eq!(change["from"], "9999-01-02");
    assert_eq!(change["input"], 3.0);
    assert_eq!(json[0]["price"]["input"], 1.0);
}

#[test]
fn user_model_file_adds_and_overrides_models() {
    let home = Home::new();
    home.write(
        "own.yaml",
        "models: {ollama: {whale: {context: 5}}, openai: {o3: {efforts: [low]}}}",
    );
    let run = |name: &str| {
        let mut command = home.command(&["models", "--json", name]);
        let output = command.env("CACHALOT_MODELS", "own.yaml").output();
        crate::support::CommandOutput::from(output.unwrap())
    };
    assert_eq!(
        run("whale").ok().json()[0]["price"],
        serde_json::Value::Null
    );
    let o3 = run("o3").ok().json();
    assert_eq!(o3[0]["efforts"], serde_json::json!(["low"]));
    assert_eq!(o3[0]["price"]["input"], 2.0);
}

#[test]
fn part_of_a_name_lists_all_models_that_contain_it() {
    let home = Home::new();
    let opus = home.run(&["models", "Opus"]).ok();
    for row in ["  claude-opus-4-8 ", "  claude-opus-5 "] {
        assert!(opus.stdout.contains(row), "{opus}");
    }
    assert!(!opus.stdout.contains("haiku"), "{opus}");
    let json = home.run(&["models", "opus", "--json"]).ok().json();
    let models = json.as_array().unwrap();
    let name = |model: &serde_json::Value| model["model"].as_str().unwrap().to_owned();
    assert!(models.len() > 1 && models.iter().all(|model| name(model).contains("opus")));
    // The name of a provider is a part of the names, too; the only model is shown with all its data.
    let provider = home.run(&["models", "anthropic/"]).ok();
    assert!(
        provider.stdout.contains("  claude-haiku-5-5 "),
        "{provider}"
    );
    let one = home.run(&["models", "5.6-terr"]).ok();
    assert!(one.stdout.starts_with("openai/gpt-5.6-terra\n"), "{one}");
}

#[test]
fn unknown_model_is_a_usage_error_with_a_suggestion() {
    let home = Home::new();
    for (arguments, near) in [
        (
            &["models", "gpt-5.6-tera"][..],
            "did you mean `gpt-5.6-terra`?",
        ),
        (
            &["models", "openai/gpt-5.6-tera"],
            "did you mean `openai/gpt-5.6-terra`?",
        ),
        (
            &["models", "--provider", "antropic"],
            "did you mean `anthropic`?",
        ),
        (
            &["models", "--provider", "openai", "claude-opus-5"],
            "`cachalot models` lists",
        ),
        // Not the nearest name with the provider, `openai/o1`.
        (&["models", "openai/opus"], "`cachalot models` lists"),
    ] {
        let ran = home.run(arguments).fails(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(near), "{ran}");
    }
}

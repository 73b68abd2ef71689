//! JSON Schema of models and agents in an agent file. Tools are described only as far as agent files need
//! them: `toolsets` and `mcps` accept more keys than the schema names.

use serde_json::{Map, Value, json};

use super::{boolean, closed, mapping, text};

/// Returns the top-level keys for models and agents, with their schemas.
pub(super) fn sections() -> Vec<(&'static str, Value)> {
    vec![
        (
            "models",
            each(
                "Models by the names that they have in this file.",
                json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/model" }] }),
            ),
        ),
        (
            "providers",
            each(
                "Providers of your own, or more about those that are known.",
                reference("provider"),
            ),
        ),
        ("agents", each("Agents by name.", reference("agent"))),
        (
            "budget",
            closed(
                "What a run may spend.",
                json!({
                    "max_cost": number_or_text("US dollars."),
                    "max_tokens": whole("Tokens, input and output of all calls.", 0, None),
                    "max_time": span("Time on the wall clock."),
                }),
            ),
        ),
        (
            "permissions",
            closed(
                "Which tools agents may call: `TOOL` or `TOOL:ARGUMENT=PATTERN`.",
                json!({
                    "allow": texts("Not asked about."),
                    "ask": texts("Asked about; where nobody is there to ask, refused."),
                    "deny": texts("Refused."),
                }),
            ),
        ),
        (
            "mcps",
            each("MCP servers by name.", json!({ "type": "object" })),
        ),
        ("tools", tools()),
    ]
}

/// Returns the definitions that these sections and `settings.llm` refer to.
pub(super) fn definitions() -> Vec<(&'static str, Value)> {
    let mut model = of_model();
    let provider = closed("A provider.", Value::Object(of_provider()));
    model.extend(of_provider());
    let settings = closed("A model.", Value::Object(model));
    let mut complete = settings.clone();
    complete["required"] = json!(["model"]);
    vec![
        ("model", complete),
        ("model_settings", settings),
        ("provider", provider),
        ("agent", agent()),
        ("toolset", toolset()),
    ]
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Schema of a mapping with arbitrary keys and values of one schema.
fn each(description: &str, value: Value) -> Value {
    json!({ "description": description, "type": "object", "additionalProperties": value })
}

/// Schema of a reference to an environment variable.
fn variable() -> Value {
    json!({ "type": "string", "pattern": "^\\$\\{" })
}

fn whole(description: &str, least: u64, most: Option<u64>) -> Value {
    let mut number = json!({ "type": "integer", "minimum": least });
    if let Some(most) = most {
        number["maximum"] = most.into();
    }
    json!({ "description": description, "anyOf": [number, variable()] })
}

fn number(description: &str, most: u64) -> Value {
    let number = json!({ "type": "number", "minimum": 0, "maximum": most });
    json!({ "description": description, "anyOf": [number, variable()] })
}

fn number_or_text(description: &str) -> Value {
    json!({ "description": description, "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string" }] })
}

/// Schema of a sub-agent that is written as a mapping.
fn sub_agent() -> Value {
    let mut sub_agent = closed(
        "An agent that it may delegate to.",
        json!({
            "name": text("Its name."),
            "fork": boolean("Whether it goes on with the conversation."),
        }),
    );
    sub_agent["required"] = json!(["name"]);
    sub_agent
}

/// Schema of a duration.
fn span(description: &str) -> Value {
    let number = json!({ "type": "number", "exclusiveMinimum": 0 });
    json!({
        "description": format!("{description} Seconds, or text such as `250ms`, `30s`, `10m`, `1h30m`."),
        "anyOf": [number, { "type": "string" }],
    })
}

fn flag(description: &str) -> Value {
    json!({ "description": description, "anyOf": [{ "type": "boolean" }, variable()] })
}

fn texts(description: &str) -> Value {
    json!({ "description": description, "type": "array", "items": { "type": "string" } })
}

fn of_model() -> Map<String, Value> {
    Map::from_iter([
        (
            "provider".to_owned(),
            text("The provider: a key of `providers`, or one that is known."),
        ),
        (
            "model".to_owned(),
            text("The model's name, as the provider knows it."),
        ),
        (
            "fallbacks".to_owned(),
            texts("Models that are asked in this order when this one does not answer."),
        ),
    ])
}

fn of_provider() -> Map<String, Value> {
    let rates = json!({
        "input": number_or_text("US dollars per million tokens of input."),
        "output": number_or_text("US dollars per million tokens of output."),
        "cache_read": number_or_text("Of input that the provider had cached."),
        "cache_write": number_or_text("Of input that it caches."),
        "cache_write_5m": number_or_text("Of input that it caches for five minutes."),
        "cache_write_1h": number_or_text("Of input that it caches for an hour."),
    });
    let mut above = rates.clone();
    above["tokens"] = whole("From more input than this.", 1, None);
    let mut cost = rates;
    cost["above"] = closed("The price of longer requests.", above);
    let formats =
        json!([{ "enum": ["chat", "responses", "messages", "gemini", "converse"] }, variable()]);
    let budget = json!([{ "type": "integer", "minimum": 1 }, { "type": "string" }]);
    let mut output = closed(
        "That answers are JSON of a shape.",
        json!({
            "name": text("A name for the shape."),
            "schema": mapping("Its JSON Schema."),
            "strict": flag("Whether the provider must enforce it."),
        }),
    );
    output["required"] = json!(["schema"]);
    let fields = json!({
        "base_url": text("Where the provider is."),
        "token_key": text("The environment variable that holds the key."),
        "key_header": text("The header that carries the key."),
        "headers": each("Further headers.", json!({ "type": "string" })),
        "format": { "description": "What is spoken.", "anyOf": formats },
        "temperature": number("Sampling temperature.", 10),
        "top_p": number("Nucleus sampling.", 1),
        "max_tokens": whole("Tokens that an answer may have, reasoning included.", 1, None),
        "stop": texts("Texts at which an answer ends."),
        "reasoning_effort": text("How much it thinks: `low`, `medium`, `high`."),
        "thinking_budget": { "description": "Tokens that it may think, or an effort.", "anyOf": budget },
        "parallel_tool_calls": flag("Whether it may call several tools at once."),
        "structured_output": output,
        "provider_opts": mapping("Further fields of requests, sent as they are."),
        "cost": closed("What tokens cost.", cost),
        "prices": text("The provider whose prices and limits apply."),
        "context": whole("Tokens that the model takes.", 1, None),
        "timeouts": closed("How long is waited.", json!({
            "connect": span("For the connection."),
            "first_byte": span("For the first byte of the answer."),
            "total": span("For one try, from connecting to the last byte."),
            "idle": span("In the middle of an answer."),
        })),
        "retries": whole("How often a request is sent again.", 0, Some(10)),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn agent() -> Value {
    let limit = |description: &str| json!({ "description": description, "type": "integer", "minimum": 0, "maximum": u32::MAX });
    let mut agent = closed(
        "An agent.",
        json!({
            "model": text("A key of `models`, `provider/model`, or a model's own name."),
            "description": text("What it is good for; read by agents that delegate to it."),
            "instruction": text("What it is told before everything else."),
            "instruction_file": text("A file with that, relative to the agent file."),
            "toolsets": {
                "description": "Its tools.", "type": "array", "items": reference("toolset"),
            },
            "sub_agents": {
                "description": "Agents that it may delegate to.", "type": "array",
                "items": { "anyOf": [{ "type": "string" }, sub_agent()] },
            },
            "max_iterations": limit("Model calls in a turn; 0 for no limit."),
            "max_consecutive_tool_calls": limit("Identical batches of calls in a row that end a turn; 0 for no limit."),
            "recall": limit("How many memories that match the message it is told."),
            "compaction_threshold": {
                "description": "The part of what its model takes from which on the conversation is summarized; 0 for never.",
                "type": "number", "minimum": 0, "maximum": 1,
            },
            "hooks": mapping("Who is told of what happens, and may have a say in it."),
            "review": review(),
            "prefix": closed(
                "How the provider is to keep what was sent.",
                json!({
                    "ttl": {
                        "description": "How long after the last reading: five minutes, an hour, or what fits who is waited for.",
                        "enum": ["5m", "1h", "auto"],
                    },
                    "warn_above": {
                        "description": "What it has to cost, in US dollars, that the provider cannot read what it was sent before, for the user to be warned.",
                        "type": "number", "minimum": 0,
                    },
                    "diagnostics": {
                        "description": "Whether the provider is to compare each request with the one before.",
                        "type": "boolean",
                    },
                }),
            ),
        }),
    );
    agent["required"] = json!(["model"]);
    agent
}

fn review() -> Value {
    let word =
        |description: &str, words: &[&str]| json!({ "description": description, "enum": words });
    let count = |description: &str, most: u64| json!({ "description": description, "type": "integer", "minimum": 0, "maximum": most });
    closed(
        "What of its chats is looked at in the background.",
        json!({
            "every_turns": count("After so many turns, each time; 0: only when asked for.", u32::MAX.into()),
            "kind": word("What it looks for.", &["memory", "skill", "combined"]),
            "tools": texts("The tools that it may use, of those that the agent has."),
            "model": text("Who is asked, if not the agent's model."),
            "max_input_tokens": count("Tokens that it may read; 0 for no limit.", u64::MAX),
            "max_iterations": count("Model calls; 0 for no limit.", u32::MAX.into()),
            "inherit": word("What it takes over of the chat's requests.", &["full", "prompt", "session", "none"]),
            "notify": word("How much is told of it.", &["off", "on", "verbose"]),
        }),
    )
}

fn toolset() -> Value {
    json!({
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {
                "description": "Which tools.",
                "enum": ["filesystem", "shell", "fetch", "web_fetch", "memory", "skills", "mcp", "actions"],
            },
            "tools": texts("Patterns of those that are taken."),
            "readonly": flag("Whether only those are taken that change nothing."),
            "instruction": text("What an agent is told of them."),
            "ref": text("For `mcp`: a key of `mcps`."),
        },
    })
}

/// Schema of `tools`. Each key has two spellings.
fn tools() -> Value {
    let lifetimes = each(
        "Lifetimes by tool.",
        span("How long a result may be served."),
    );
    let keys = [
        (
            "cacheToolResults",
            "cache_tool_results",
            boolean("Whether results of tools are kept."),
        ),
        (
            "cacheToolResultsMaxSize",
            "cache_tool_results_max_size",
            whole("How many.", 1, None),
        ),
        (
            "cacheToolResultsMaxBytes",
            "cache_tool_results_max_bytes",
            whole("Bytes that they may take.", 1, None),
        ),
        (
            "cacheToolResultsScope",
            "cache_tool_results_scope",
            json!({ "description": "Who shares them.", "enum": ["session", "workspace", "user"] }),
        ),
        (
            "cacheToolResultsDelivery",
            "cache_tool_results_delivery",
            json!({ "description": "How a repeated result is given.", "enum": ["full", "marker"] }),
        ),
        ("cacheToolResultsTtl", "cache_tool_results_ttl", lifetimes),
    ];
    let mut properties = Map::new();
    for (capitals, underscores, schema) in keys {
        properties.insert(capitals.to_owned(), schema.clone());
        properties.insert(underscores.to_owned(), schema);
    }
    closed("How results of tools are kept.", Value::Object(properties))
}

//! Options under `provider_opts` that docker-agent reads itself and does not send.

use cachalot_core::config::Values;
use cachalot_core::text::word_list;
use cachalot_core::tree::{MapEntry, Node};
use cachalot_core::{Problem, Secret};

use crate::{Extra, Format};

/// `provider_opts`, divided into what is sent and settings of other keys.
#[derive(Debug, Default)]
pub(super) struct ProviderOptions {
    /// The fields that are sent.
    pub(super) extra: Extra,
    /// `http_headers`.
    pub(super) headers: Vec<(String, Secret<String>)>,
    /// `api_type`.
    pub(super) format: Option<Format>,
    /// `context_size`.
    pub(super) context: Option<u64>,
}

/// Options without effect, by the remedy.
#[rustfmt::skip]
const WITHOUT_EFFECT: [(&str, &[&str]); 6] = [
    ("answers are streamed over HTTP", &["transport"]),
    ("Claude thinks between tool calls by itself where it can", &["interleaved_thinking", "thinking_display"]),
    ("to ground answers in a search, set `format: gemini` and `tools: [{google_search: {}}]` here", &["google_search", "google_maps", "code_execution"]),
    ("configure the server of the model itself", &["runtime_flags", "speculative_draft_model", "speculative_num_tokens", "speculative_acceptance_rate", "unload_api"]),
    ("pictures are sent, unless the catalog says that the model takes none", &["supports_images", "supports_pdf"]),
    ("prompt caching costs nothing if it is not used", &["disable_prompt_caching"]),
];

/// Options of Amazon Bedrock without effect.
const OF_BEDROCK: [&str; 6] =
    word_list("region profile role_arn role_session_name external_id endpoint_url");
const BEDROCK_REMEDY: &str = "set AWS_REGION, AWS_PROFILE or AWS_ENDPOINT_URL_BEDROCK_RUNTIME in the environment, or `base_url`";

/// Reads `provider_opts`. `read_header` parses a header.
pub(super) fn read(
    values: Values<'_>,
    read_header: impl Fn(&MapEntry) -> Result<(String, Secret<String>), Problem>,
    problems: &mut Vec<Problem>,
) -> ProviderOptions {
    let mut options = ProviderOptions::default();
    let provider = values.mapping().get("provider").and_then(Node::as_text);
    let is_bedrock = provider.is_some_and(|provider| provider.contains("bedrock"));
    for entry in values.map("provider_opts") {
        match entry.key.as_str() {
            "context_size" if entry.value.as_u64().is_some() => {
                options.context = entry.value.as_u64();
            }
            "http_headers" if entry.value.as_map().is_some() => {
                let headers = entry.value.as_map().unwrap_or_default().iter();
                let read = headers.filter_map(|header| match read_header(header) {
                    Ok(header) => Some(header),
                    Err(problem) => {
                        problems.push(problem);
                        None
                    }
                });
                options.headers.extend(read.collect::<Vec<_>>());
            }
            "api_type" => match entry.value.as_text() {
                Some("openai_responses") => options.format = Some(Format::Responses),
                _ => options.format = Some(Format::Chat),
            },
            "fallbacks" if names_models(&entry.value) => {
                problems.push(without_effect(entry, FALLBACKS_REMEDY));
            }
            name => match remedy(name, is_bedrock) {
                Some(remedy) => problems.push(without_effect(entry, remedy)),
                None => {
                    options
                        .extra
                        .insert(name.to_owned(), entry.value.to_value());
                }
            },
        }
    }
    options
}

/// Remedy for `fallbacks`, the models that Anthropic asks after a refusal. The answer would not be charged at
/// the price of the model that gave it.
const FALLBACKS_REMEDY: &str = "write `fallbacks: […]` beside `provider`: these models are asked after an overload, a limit or a failure, and not after a refusal";

/// True for a list of names of models, as docker-agent reads it. Fields of the API are mappings.
fn names_models(node: &Node) -> bool {
    let items = node.as_list();
    items.is_some_and(|items| items.iter().all(|item| item.as_text().is_some()))
}

fn remedy(name: &str, is_bedrock: bool) -> Option<&'static str> {
    if is_bedrock && OF_BEDROCK.contains(&name) {
        return Some(BEDROCK_REMEDY);
    }
    let mut groups = WITHOUT_EFFECT.iter();
    let group = groups.find(|(_, names)| names.contains(&name));
    group.map(|(remedy, _)| *remedy)
}

fn without_effect(entry: &MapEntry, remedy: &str) -> Problem {
    let message = format!("`{}` in `provider_opts` has no effect", entry.key);
    Problem::warning("no-effect", message)
        .at(&entry.key_place)
        .help(remedy)
}

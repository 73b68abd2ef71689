//! Embeddings of OpenAI and Gemini. A vector counts the words of its text: texts with common words are
//! similar, and equal texts have equal vectors in every run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachalot_core::Digest;
use serde_json::{Value, json};

use super::{RequestContext, ServerState};
use crate::tokens;
use crate::wire::{ApiError, Format, check_embeddings};

/// Number of dimensions of the models of Gemini.
const GEMINI_DIMENSIONS: u64 = 3_072;

/// Maximum number of requests in a batch of Gemini.
const MAX_BATCH: usize = 100;

/// An endpoint for embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint<'a> {
    OpenAi,
    Gemini { model: &'a str, is_batch: bool },
}

/// Returns the endpoint at a path.
pub(super) fn endpoint(path: &str) -> Option<Endpoint<'_>> {
    if matches!(path, "/v1/embeddings" | "/openai/v1/embeddings") {
        return Some(Endpoint::OpenAi);
    }
    let prefixes = ["/v1beta/models/", "/v1/models/"];
    let rest = prefixes
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix))?;
    let (model, method) = rest.rsplit_once(':')?;
    let is_batch = match method {
        "embedContent" => false,
        "batchEmbedContents" => true,
        _ => return None,
    };
    Some(Endpoint::Gemini { model, is_batch })
}

impl Endpoint<'_> {
    /// Returns the format of its errors.
    pub(super) fn format(self) -> Format {
        match self {
            Self::OpenAi => Format::Chat,
            Self::Gemini { .. } => Format::Gemini,
        }
    }
}

/// Answers a request to an endpoint.
pub(super) fn answer(
    server: &ServerState,
    context: &RequestContext,
    endpoint: Endpoint<'_>,
    body: &[u8],
) -> Result<Value, ApiError> {
    let body = server.admit(context, body)?;
    match endpoint {
        Endpoint::OpenAi => openai(server, &body),
        Endpoint::Gemini { model, is_batch } => {
            server.check_model_exists(model)?;
            gemini(&body, is_batch)
        }
    }
}

fn openai(server: &ServerState, body: &Value) -> Result<Value, ApiError> {
    if !server.script.accepts_unknown_parameters {
        check_embeddings(body)?;
    }
    let model = body.get("model").and_then(Value::as_str);
    let Some(model) = model.filter(|model| !model.is_empty()) else {
        return Err(ApiError::invalid("you must provide a model parameter").param("model"));
    };
    server.check_model_exists(model)?;
    let maximum = if model.contains("-3-large") {
        3_072
    } else {
        1_536
    };
    let dimensions =
        dimensions(body.get("dimensions"), maximum).map_err(|error| error.param("dimensions"))?;
    let is_base64 = body.get("encoding_format") == Some(&json!("base64"));
    let inputs = inputs(body.get("input").unwrap_or(&Value::Null));
    let is_empty = |input: &Input| input.text.is_empty();
    if inputs.is_empty() || inputs.iter().any(is_empty) {
        let message = "'$.input' is invalid: it is empty. Please check the API reference.";
        return Err(ApiError::invalid(message).param("input"));
    }
    let embedding = |(index, input): (usize, &Input)| {
        let vector = vector(&input.text, dimensions);
        let values = if is_base64 {
            let bytes = vector.iter().flat_map(|value| value.to_le_bytes());
            json!(STANDARD.encode(bytes.collect::<Vec<u8>>()))
        } else {
            json!(vector)
        };
        json!({"object": "embedding", "index": index, "embedding": values})
    };
    let tokens: u64 = inputs.iter().map(|input| input.tokens).sum();
    Ok(json!({
        "object": "list",
        "data": inputs.iter().enumerate().map(embedding).collect::<Vec<_>>(),
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

fn gemini(body: &Value, is_batch: bool) -> Result<Value, ApiError> {
    let one = |request: &Value| {
        let parts = request.pointer("/content/parts").and_then(Value::as_array);
        let texts = parts.into_iter().flatten();
        let texts: Vec<&str> = texts
            .filter_map(|part| part.get("text")?.as_str())
            .collect();
        let text = texts.join("\n");
        if text.is_empty() {
            return Err(ApiError::invalid(
                "* EmbedContentRequest.content: content is empty",
            ));
        }
        let asked = [
            "/outputDimensionality",
            "/output_dimensionality",
            "/embedContentConfig/outputDimensionality",
        ];
        let asked = asked.iter().find_map(|at| request.pointer(at));
        let dimensions = dimensions(asked, GEMINI_DIMENSIONS)?;
        let counted = tokens::estimate(&text).max(1);
        Ok((json!({"values": vector(&text, dimensions)}), counted))
    };
    if !is_batch {
        let (embedding, counted) = one(body)?;
        let usage = json!({"promptTokenCount": counted});
        return Ok(json!({"embedding": embedding, "usageMetadata": usage}));
    }
    let requests = body.get("requests").and_then(Value::as_array);
    let requests = requests.map(Vec::as_slice).unwrap_or_default();
    if requests.is_empty() || requests.len() > MAX_BATCH {
        return Err(ApiError::invalid(format!(
            "* BatchEmbedContentsRequest.requests: from 1 to {MAX_BATCH} requests can be in one batch"
        )));
    }
    let embedded = requests.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let counted: u64 = embedded.iter().map(|(_, counted)| counted).sum();
    let embeddings: Vec<&Value> = embedded.iter().map(|(embedding, _)| embedding).collect();
    let usage = json!({"promptTokenCount": counted});
    Ok(json!({"embeddings": embeddings, "usageMetadata": usage}))
}

/// Returns the number of dimensions that a request asks for; the maximum if it does not.
fn dimensions(asked: Option<&Value>, maximum: u64) -> Result<usize, ApiError> {
    let asked = match asked.filter(|asked| !asked.is_null()) {
        Some(asked) => asked.as_u64().filter(|asked| (1..=maximum).contains(asked)),
        None => Some(maximum),
    };
    asked
        .and_then(|asked| usize::try_from(asked).ok())
        .ok_or_else(|| {
            ApiError::invalid(format!(
                "dimensions: a number from 1 to {maximum} is expected"
            ))
        })
}

/// A text to embed, or tokens in its place.
struct Input {
    text: String,
    tokens: u64,
}

/// Returns the inputs of OpenAI: a text, texts, tokens, or lists of tokens.
fn inputs(input: &Value) -> Vec<Input> {
    let one = |value: &Value| match value {
        Value::String(text) => Input {
            text: text.clone(),
            tokens: tokens::estimate(text),
        },
        other => {
            let numbers = other.as_array().into_iter().flatten();
            let numbers: Vec<String> = numbers.map(Value::to_string).collect();
            Input {
                tokens: numbers.len() as u64,
                text: numbers.join(" "),
            }
        }
    };
    match input {
        Value::Array(all) if !all.first().is_some_and(Value::is_number) => {
            all.iter().map(one).collect()
        }
        Value::Null => Vec::new(),
        single => vec![one(single)],
    }
}

/// Returns a vector of length 1: how often each word occurs, at a place that the word determines.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut counts = vec![0.0_f32; dimensions.max(1)];
    let words = text.split(|c: char| !c.is_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        let digest = Digest::sha256(word.to_lowercase().as_bytes());
        let place = digest.as_bytes().iter().take(7).fold(0_usize, |sum, byte| {
            sum.wrapping_mul(256).wrapping_add(usize::from(*byte))
        });
        let place = place % counts.len();
        counts[place] += 1.0;
    }
    let length = counts.iter().map(|count| count * count).sum::<f32>().sqrt();
    if length <= 0.0 {
        counts[0] = 1.0;
        return counts;
    }
    counts.iter().map(|count| count / length).collect()
}

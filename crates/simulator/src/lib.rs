//! The provider simulator: a real HTTP server on the loopback interface that implements the model APIs, so
//! that everything can be tried and tested without a key.
//!
//! Supported APIs, with and without streaming, with tool calls, reasoning and structured output:
//! - OpenAI Chat Completions (`POST /v1/chat/completions`) and the paths of Azure OpenAI;
//! - OpenAI Responses (`POST /v1/responses`), with stored responses (`previous_response_id`,
//!   `item_reference`, `GET` and `DELETE /v1/responses/ID`), compaction (`POST /v1/responses/compact`) and
//!   token counts (`POST /v1/responses/input_tokens`);
//! - Anthropic Messages (`POST /v1/messages`, with `…/count_tokens`), with the message threads of the beta;
//! - Gemini (`POST /v1beta/models/NAME:generateContent`) and its Interactions (`POST /v1beta/interactions`);
//! - embeddings of OpenAI (`POST /v1/embeddings`) and Gemini (`…:embedContent`, `…:batchEmbedContents`);
//! - Amazon Bedrock's Converse (`POST /model/NAME/converse`, `…/converse-stream`);
//! - the list of models (`GET /v1/models`).
//!
//! Behavior:
//! - A [`Script`] defines the answers of the models; the default is the built-in scenario.
//! - Requests are validated as strictly as the providers do: by handwritten rules, by the capabilities of
//!   each model ([`facts`]), and by the providers' official schemas with unknown fields refused. Refusals have
//!   the provider's shape and status; those of invalid requests are recorded in [`RunningSimulator::violations`].
//! - The reported usage follows the providers' published prompt-cache rules, computed from the request as
//!   received: see [`accounting`]. Token counts are the documented estimate of [`tokens`].
//! - Faults: error responses, slow, truncated and malformed answers, broken connections.
//!
//! It has its own implementation of the formats and shares no code with the clients that it is used to
//! test.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use cachalot_simulator::{SimulatorOptions, Script, Simulator};
//!
//! let script = Script::answers(["Good morning."]);
//! let running = Simulator::start(SimulatorOptions { script, ..SimulatorOptions::default() }).await?;
//! println!("OPENAI_BASE_URL={}/v1 ANTHROPIC_BASE_URL={}", running.url(), running.url());
//! running.stop().await;
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod accountant;
mod answer;
pub mod cloud;
mod delivery;
mod diagnosis;
mod dialogue;
pub mod facts;
mod ids;
mod received;
mod reply;
mod scenario;
mod schema;
mod script;
mod server;
mod server_state;
mod wire;

pub use cachalot_accounting as accounting;
pub use cachalot_accounting::tokens;

pub use accountant::{Accountant, RefusedRequest, check_request};
pub use answer::InputTokens;
pub use received::ReceivedRequest;
pub use reply::{
    Fault, FaultKind, ScriptedCall, ScriptedCompaction, ScriptedReply, ScriptedStop, ScriptedUsage,
};
pub use script::Script;
pub use server::{RunningSimulator, Simulator, SimulatorOptions};
pub use wire::Format;

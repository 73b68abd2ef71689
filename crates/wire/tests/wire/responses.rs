//! OpenAI Responses.

mod properties;
mod reading;
mod rendering;
mod streaming;

//! Sampling: a server asks for an answer of the agent's model.

#![expect(
    deprecated,
    reason = "sampling is not in the newest protocol version; servers of all versions use it"
)]

use cachalot_core::SecretSet;
use cachalot_model::{Block, Image, ImageSource, Message, Role, StopReason};
use cachalot_operation::{Sampler, SamplingError, SamplingRequest};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorCode, ErrorData, SamplingMessage,
    SamplingMessageContentBlock,
};

/// The error code of a request that the user has refused.
const REFUSED_BY_USER: ErrorCode = ErrorCode(-1);

/// Asks the model what a server asks, with known secrets masked. Preferences for other models and for context of the
/// conversation are not followed, which the protocol permits.
///
/// # Errors
/// There is no model to ask, it failed, the user declined, or the request has content that cannot be sent to a model.
pub(super) async fn ask(
    server: &str,
    request: CreateMessageRequestParams,
    sampler: Option<&dyn Sampler>,
    secret_set: &SecretSet,
) -> Result<CreateMessageResult, ErrorData> {
    let Some(sampler) = sampler else {
        let message = "no user can approve an answer of the model during this call";
        return Err(ErrorData::new(REFUSED_BY_USER, message, None));
    };
    let request = read(server, request, secret_set)
        .map_err(|why| ErrorData::invalid_params(format!("cannot be asked: {why}"), None))?;
    let answer = sampler.sample(request).await.map_err(|error| {
        let message = error.to_string();
        match error {
            SamplingError::Declined => ErrorData::new(REFUSED_BY_USER, message, None),
            SamplingError::Failed(_) => ErrorData::internal_error(message, None),
        }
    })?;
    let stop = match answer.stop {
        StopReason::Length => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        StopReason::StopText => CreateMessageResult::STOP_REASON_END_SEQUENCE,
        _ => CreateMessageResult::STOP_REASON_END_TURN,
    };
    let message = SamplingMessage::assistant_text(answer.text);
    Ok(CreateMessageResult::new(message, answer.model).with_stop_reason(stop))
}

fn read(
    server: &str,
    request: CreateMessageRequestParams,
    secret_set: &SecretSet,
) -> Result<SamplingRequest, String> {
    if request.tools.is_some_and(|tools| !tools.is_empty()) {
        return Err("tools are not offered (the capability `sampling.tools`)".to_owned());
    }
    let messages: Vec<Message> = request
        .messages
        .into_iter()
        .map(|message| read_message(message, secret_set))
        .collect::<Result<_, _>>()?;
    if messages.is_empty() {
        return Err("`messages` is empty".to_owned());
    }
    Ok(SamplingRequest {
        requester: format!("the MCP server `{server}`"),
        system: request
            .system_prompt
            .map(|text| secret_set.redact(&text).into_owned()),
        messages,
        max_output_tokens: request.max_tokens.into(),
        temperature: request.temperature.map(f64::from),
        stop: request.stop_sequences.unwrap_or_default(),
    })
}

fn read_message(message: SamplingMessage, secret_set: &SecretSet) -> Result<Message, String> {
    let role = match message.role {
        rmcp::model::Role::User => Role::User,
        rmcp::model::Role::Assistant => Role::Assistant,
    };
    let blocks = message
        .content
        .into_vec()
        .into_iter()
        .map(|block| read_block(block, secret_set));
    Ok(Message::new(role, blocks.collect::<Result<_, _>>()?))
}

fn read_block(block: SamplingMessageContentBlock, secret_set: &SecretSet) -> Result<Block, String> {
    match block {
        SamplingMessageContentBlock::Text(text) => Ok(Block::text(secret_set.redact(&text.text))),
        SamplingMessageContentBlock::Image(image) => Ok(Block::Image(Image {
            source: ImageSource::Inline {
                media_type: image.mime_type,
                base64: image.data,
            },
            extra: cachalot_model::Extra::new(),
        })),
        _ => Err("only text and images can be sent to the model".to_owned()),
    }
}

//! Over the wire: addresses, keys, frames, and errors.

use std::sync::Arc;

use cachalot_core::ManualClock;
use cachalot_model::{Delta, ErrorKind, Format, Model, Models, RetryPauses};
use cachalot_simulator::cloud::{ACCESS_KEY, SECRET_KEY};
use cachalot_simulator::{
    Fault, FaultKind, RunningSimulator, Script, ScriptedReply, Simulator, SimulatorOptions,
};
use serde_json::json;

use super::SONNET;
use crate::client::{NOW, RecordedPauses, ask, configured, model_dependencies, stream};

const TOKEN: &str = "bedrock-0123456789abcdef";

async fn bedrock(replies: Vec<ScriptedReply>) -> RunningSimulator {
    let script = Script::replies(replies).with_required_key(TOKEN);
    Simulator::start(SimulatorOptions {
        script,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap()
}

/// A model at this address, and what it waited for.
fn model(running: &RunningSimulator) -> (Model, Arc<RecordedPauses>) {
    let pauses = Arc::new(RecordedPauses::default());
    let yaml = format!(
        "models: {{m: {{provider: bedrock, model: '{SONNET}', format: converse, base_url: '{}', token_key: AWS_BEARER_TOKEN_BEDROCK, thinking_budget: 2000}}}}",
        running.url()
    );
    let environment = model_dependencies(&[("AWS_BEARER_TOKEN_BEDROCK", TOKEN)]);
    let models = Models::new(environment, configured(&yaml));
    let models = models.with_pauses(Arc::clone(&pauses) as Arc<dyn RetryPauses>);
    (models.find("m").unwrap(), pauses)
}

#[tokio::test]
async fn path_contains_model_and_method() {
    let reply = || ScriptedReply::text("A text of several pieces.").with_reasoning("A thought.");
    let running = bedrock(vec![reply(), reply()]).await;
    let (model, _) = model(&running);
    assert_eq!(model.wire().format(), Format::Converse);
    assert_eq!(model.identity()["format"], "converse");
    let whole = ask(&model).await.unwrap();
    let (streamed, deltas) = stream(&model).await;
    let streamed = streamed.unwrap();
    assert_eq!(streamed.message, whole.message);
    assert_eq!(whole.message.text(), "A text of several pieces.");
    let texts = deltas
        .iter()
        .filter(|delta| matches!(delta, Delta::Text(_)));
    assert!(texts.count() > 1);
    assert!(matches!(&deltas[0], Delta::Reasoning(_)));
    assert!(streamed.usage.unwrap().output > 0);
    let received = running.received();
    let path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
    assert_eq!(received[0].path, path);
    assert_eq!(received[1].path, format!("{path}-stream"));
    for request in received {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(header("authorization"), Some(format!("Bearer {TOKEN}")));
        assert_eq!(header("x-api-key"), None);
        let thinking = &request.json()["additionalModelRequestFields"]["thinking"];
        assert_eq!(
            *thinking,
            json!({"type": "enabled", "budget_tokens": 2_000})
        );
    }
    assert_eq!(running.violations(), [] as [String; 0]);
}

/// Without a bearer token, requests are signed.
#[tokio::test]
async fn requests_are_signed() {
    let running = Simulator::start(SimulatorOptions {
        script: Script::answers(["a", "b"]),
        clock: Arc::new(ManualClock::at(NOW)),
        ..SimulatorOptions::default()
    })
    .await
    .unwrap();
    let yaml = format!("models: {{m: {{provider: bedrock, model: '{SONNET}', format: converse}}}}");
    for (secret, is_right) in [(SECRET_KEY, true), ("other", false)] {
        let environment = model_dependencies(&[
            ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", &running.url()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ]);
        let models = Models::new(environment, configured(&yaml));
        let model = models.find("m").unwrap();
        if is_right {
            assert_eq!(ask(&model).await.unwrap().message.text(), "a");
            assert_eq!(stream(&model).await.0.unwrap().message.text(), "b");
        } else {
            let error = ask(&model).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
        }
    }
}

#[tokio::test]
async fn errors_are_mapped_and_transient_ones_retried() {
    for (status, kind, code, tries) in [
        (400, ErrorKind::Rejected, "ValidationException", 1),
        (403, ErrorKind::Unauthorized, "AccessDeniedException", 1),
        (404, ErrorKind::Rejected, "ResourceNotFoundException", 1),
        (408, ErrorKind::TimedOut, "ModelTimeoutException", 3),
        (424, ErrorKind::Unavailable, "ModelErrorException", 3),
        // Until the pauses add up to five minutes.
        (429, ErrorKind::Limited, "ThrottlingException", 16),
        (500, ErrorKind::Unavailable, "InternalServerException", 3),
        (
            503,
            ErrorKind::Unavailable,
            "ServiceUnavailableException",
            3,
        ),
    ] {
        let errors = vec![ScriptedReply::error(status); 3];
        let running = bedrock(errors).await;
        let (model, pauses) = model(&running);
        let error = ask(&model).await.unwrap_err();
        assert_eq!((error.kind, error.status), (kind, Some(status)), "{error}");
        assert_eq!(error.code.as_deref(), Some(code));
        assert_eq!(pauses.waited().len() + 1, tries, "{status}");
        assert!(error.request_id.is_some());
    }
}

/// An exception in a stream of which nothing was shown is tried again, and any other is not.
#[tokio::test]
async fn stream_exceptions_are_retried_before_any_delta() {
    for (after_events, tries) in [(1, 2), (4, 1)] {
        let fault = Fault::from(FaultKind::ErrorEvent { after_events }).times(1);
        let reply = ScriptedReply::text("A text that has several pieces.").with_reasoning("Hm.");
        let running = bedrock(vec![reply.clone().with_fault(fault), reply]).await;
        let (model, pauses) = model(&running);
        let (reply, _) = stream(&model).await;
        match reply {
            Ok(reply) => assert_eq!(reply.message.text(), "A text that has several pieces."),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unavailable);
                assert_eq!(error.code.as_deref(), Some("internalServerException"));
            }
        }
        assert_eq!(pauses.waited().len() + 1, tries, "{after_events}");
    }
    for fault in [Fault::cut(3), Fault::malformed()] {
        let reply = ScriptedReply::text("A text that has several pieces.").with_fault(fault);
        let running = bedrock(vec![reply]).await;
        let (reply, _) = stream(&model(&running).0).await;
        let kind = reply.unwrap_err().kind;
        assert!(matches!(kind, ErrorKind::CutOff | ErrorKind::Malformed));
    }
}

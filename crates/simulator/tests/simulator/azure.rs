//! Azure OpenAI: the same APIs under addresses of their own.

use serde_json::json;

use crate::{CHAT, RESPONSES, client, post, said, smallest, start};
use cachalot_simulator::Script;

const VERSION: &str = "?api-version=2024-10-21";

#[tokio::test]
async fn deployment_and_v1_paths_answer_like_openai() {
    let running = start(Script::answers(["yes"])).await;
    let mut without_model = smallest(CHAT, "hello");
    without_model.as_object_mut().unwrap().shift_remove("model");
    for (path, like, body) in [
        (
            format!("/openai/deployments/mine/chat/completions{VERSION}"),
            CHAT,
            without_model,
        ),
        (
            "/openai/v1/chat/completions".to_owned(),
            CHAT,
            smallest(CHAT, "hello"),
        ),
        (
            "/openai/v1/responses".to_owned(),
            RESPONSES,
            smallest(RESPONSES, "hello"),
        ),
        (
            format!("/openai/responses{VERSION}"),
            RESPONSES,
            smallest(RESPONSES, "hello"),
        ),
    ] {
        let got = post(&running, &path, &body).await;
        assert_eq!(got.status, 200, "{path}: {}", got.text);
        assert_eq!(said(like, &got.json()), "yes", "{path}");
    }
    let model = post(
        &running,
        &format!("/openai/deployments/mine/chat/completions{VERSION}"),
        &smallest(CHAT, "hello"),
    )
    .await
    .json()["model"]
        .clone();
    assert_eq!(model, "mine", "the deployment, whatever the body says");
    assert_eq!(running.violations(), [] as [String; 0]);
}

#[tokio::test]
async fn azure_path_without_api_version_is_not_found() {
    let running = start(Script::answers(["yes"])).await;
    for path in [
        "/openai/deployments/mine/chat/completions",
        "/openai/responses",
    ] {
        let got = post(&running, path, &smallest(CHAT, "hello")).await;
        assert_eq!(got.status, 404);
        assert_eq!(
            got.json()["error"],
            json!({"code": "404", "message": "Resource not found", "type": "invalid_request_error", "param": null})
        );
    }
    let path = format!("/openai/deployments/mine/embeddings{VERSION}");
    assert_eq!(post(&running, &path, &json!({})).await.status, 404);
}

#[tokio::test]
async fn azure_key_is_read_from_the_api_key_header() {
    let script = Script::parse("script.yaml", "key: azure-key\notherwise: {text: yes}").unwrap();
    let running = start(script).await;
    for (key, status) in [("azure-key", 200), ("another", 401)] {
        let url = format!("{}/openai/v1/chat/completions", running.url());
        let response = client()
            .post(url)
            .header("api-key", key)
            .body(smallest(CHAT, "hello").to_string())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status().as_u16(), status);
    }
}

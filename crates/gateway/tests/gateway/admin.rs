//! The listener for the operator.

use cachalot_core::Digest;
use serde_json::{Value, json};

use crate::support::{Answer, Setup, chat, read};

const CHAT: &str = "/v1/chat/completions";

async fn setup() -> Setup {
    let digest = Digest::sha256(b"cachalot-one").to_hex();
    Setup::configured(&format!(
        "upstreams: {{openai: {{url: '{{url}}', credential: {{env: SECRET}}}}}}
keys: {{one: {{digest: {digest}, budget: {{day: 1, month: 2.5}}}}}}
admin: {{listen: '127.0.0.1:0', token: {{env: SECRET}}}}
"
    ))
    .await
}

async fn get(setup: &Setup, token: &str, path: &str) -> Answer {
    let address = setup.gateway.admin_address().unwrap();
    read(
        setup
            .client
            .get(format!("http://{address}{path}"))
            .bearer_auth(token),
    )
    .await
}

async fn invalidate(setup: &Setup, body: Value) -> Answer {
    let address = setup.gateway.admin_address().unwrap();
    let request = setup
        .client
        .post(format!("http://{address}/admin/invalidate"));
    read(
        request
            .bearer_auth("operator-secret")
            .body(body.to_string()),
    )
    .await
}

async fn ask(setup: &Setup, text: &str, tag: &'static str) -> Answer {
    let request = setup.client.post(format!("{}{CHAT}", setup.gateway.url()));
    let request = request
        .bearer_auth("cachalot-one")
        .header("x-cachalot-tags", tag);
    let request = request.header("content-type", "application/json");
    setup
        .settled(read(request.body(chat(text).to_string())).await)
        .await
}

#[tokio::test]
async fn only_the_operator_is_answered() {
    let setup = setup().await;
    for token in ["", "wrong", "operator-secre", "cachalot-one"] {
        for path in ["/admin/keys", "/admin/entries", "/metrics", "/admin/none"] {
            assert_eq!(get(&setup, token, path).await.status, 401, "{token} {path}");
        }
    }
    assert_eq!(
        get(&setup, "operator-secret", "/admin/none").await.status,
        404
    );
    // Neither are the operator's pages on the listener of the clients, nor the clients' on this one.
    let pages = ["/admin/keys", "/metrics"].map(|path| format!("{}{path}", setup.gateway.url()));
    for url in pages {
        assert_eq!(
            read(setup.client.get(url).bearer_auth("operator-secret"))
                .await
                .status,
            404
        );
    }
    assert_eq!(
        get(&setup, "operator-secret", "/v1/models").await.status,
        404
    );
}

#[tokio::test]
async fn keys_are_shown_with_what_they_have_spent() {
    let setup = setup().await;
    assert_eq!(ask(&setup, "hello", "a").await.status, 200);
    let document = get(&setup, "operator-secret", "/admin/keys").await.json();
    let key = &document["keys"][0];
    assert_eq!(
        (&key["name"], &key["budget"]["month"]["limit"]),
        (&json!("one"), &json!(2.5))
    );
    let used = key["budget"]["day"]["used"].as_f64().unwrap();
    assert!(used > 0.0 && used < 0.001, "{document}");
    assert!(!document.to_string().contains("operator-secret"));
    let upstreams = get(&setup, "operator-secret", "/admin/upstreams")
        .await
        .json();
    assert_eq!(upstreams["upstreams"][0]["has_credential"], true);
    let metrics = get(&setup, "operator-secret", "/metrics").await;
    assert!(metrics.body.contains(r#"key="one""#), "{}", metrics.body);
    assert!(
        get(&setup, "operator-secret", "/admin/stats").await.json()["entries"].as_u64() >= Some(1)
    );
}

#[tokio::test]
async fn entries_are_listed_and_erased() {
    let setup = setup().await;
    for (text, tag) in [("one", "a"), ("two", "a"), ("three", "b")] {
        assert_eq!(ask(&setup, text, tag).await.source(), "miss");
    }
    let listed = async |pattern: &str| {
        let path = format!("/admin/entries?pattern={pattern}");
        let document = get(&setup, "operator-secret", &path).await.json();
        document["entries"].as_array().unwrap().clone()
    };
    assert_eq!(listed("*").await.len(), 3);
    assert_eq!(listed("openai%2Fchat%2F*").await.len(), 3);
    assert_eq!(listed("anthropic*").await.len(), 0);
    let dry = invalidate(&setup, json!({"tag": "a", "dry_run": true}))
        .await
        .json();
    assert_eq!(dry["erased"].as_array().unwrap().len(), 2);
    assert_eq!(
        ask(&setup, "one", "a").await.source(),
        "hit",
        "nothing was erased"
    );
    let erased = invalidate(&setup, json!({"tag": "a"})).await.json();
    assert_eq!(erased["erased"], dry["erased"]);
    assert_eq!(ask(&setup, "one", "a").await.source(), "miss");
    assert_eq!(ask(&setup, "three", "b").await.source(), "hit");
    let key = listed("*").await[0]["key"].clone();
    let one = invalidate(&setup, json!({"key": key})).await.json();
    assert_eq!(one["erased"], json!([key]));
    let rest = invalidate(&setup, json!({"pattern": "*"})).await.json();
    assert_eq!(rest["erased"].as_array().unwrap().len(), 1);
    for wrong in [
        json!({}),
        json!({"tag": "a", "pattern": "*"}),
        json!({"tags": "a"}),
        json!({"key": "abc"}),
        json!({"tag": "a", "dry_run": "yes"}),
        json!([]),
    ] {
        assert_eq!(
            invalidate(&setup, wrong.clone()).await.status,
            400,
            "{wrong}"
        );
    }
}

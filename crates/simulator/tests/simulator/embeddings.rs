//! Embeddings of OpenAI and Gemini.

use base64::Engine as _;
use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::{ask, post, start, with};

const OPENAI: &str = "/v1/embeddings";

fn vector(embedding: &Value) -> Vec<f64> {
    let values = embedding.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap()).collect()
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[tokio::test]
async fn openai_embeddings_are_similar_for_similar_texts() {
    let running = start(Script::built_in()).await;
    let texts = ["The whale dives", "The whale sleeps", "Prices fell sharply"];
    let request = json!({"model": "text-embedding-3-small", "input": texts});
    let answer = ask(&running, OPENAI, &request).await;
    assert_eq!(answer["object"], "list");
    assert_eq!(answer["data"][2]["index"], 2);
    // 15, 16 and 19 bytes.
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 13, "total_tokens": 13})
    );
    let vectors: Vec<Vec<f64>> = (0..3)
        .map(|at| vector(&answer["data"][at]["embedding"]))
        .collect();
    assert!(vectors.iter().all(|vector| vector.len() == 1_536));
    assert!((product(&vectors[0], &vectors[0]) - 1.0).abs() < 0.001);
    assert!(product(&vectors[0], &vectors[1]) > product(&vectors[0], &vectors[2]) + 0.3);
    assert_eq!(ask(&running, OPENAI, &request).await, answer);

    // Tokens in place of a text, fewer dimensions, and the encoding of the official client.
    let tokens = json!({"input": [1, 2, 3], "dimensions": 8});
    let tokens = with(request.clone(), tokens);
    let plain = ask(&running, OPENAI, &tokens).await;
    assert_eq!(plain["usage"]["prompt_tokens"], 3);
    let encoded = ask(
        &running,
        OPENAI,
        &with(tokens, json!({"encoding_format": "base64"})),
    )
    .await;
    let encoded = encoded["data"][0]["embedding"].as_str().unwrap().to_owned();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .unwrap();
    let decoded = bytes
        .chunks(4)
        .map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap())));
    let plain = vector(&plain["data"][0]["embedding"]);
    assert_eq!(plain.len(), 8);
    assert!(
        decoded
            .zip(plain)
            .all(|(one, other)| (one - other).abs() < 1e-6)
    );

    for (fields, message) in [
        (json!({"input": ""}), "it is empty"),
        (json!({"input": []}), "it is empty"),
        (json!({"dimensions": 4_000}), "a number from 1 to 1536"),
        (json!({"texts": []}), "Unknown parameter: 'texts'."),
    ] {
        let got = post(&running, OPENAI, &with(request.clone(), fields.clone())).await;
        assert_eq!(got.status, 400, "{fields}");
        assert!(got.text.contains(message), "{}", got.text);
    }
}

#[tokio::test]
async fn gemini_embeds_one_content_or_a_batch() {
    let running = start(Script::built_in().with_models(["gemini-*"])).await;
    let content =
        |text: &str| json!({"content": {"parts": [{"text": text}]}, "outputDimensionality": 4});
    let path = |method: &str| format!("/v1beta/models/gemini-embedding-001:{method}");
    let one = ask(&running, &path("embedContent"), &content("A whale")).await;
    assert_eq!(vector(&one["embedding"]["values"]).len(), 4);
    assert_eq!(one["usageMetadata"]["promptTokenCount"], 2);
    let batch = json!({"requests": [content("A whale"), content("A dolphin")]});
    let batch = ask(&running, &path("batchEmbedContents"), &batch).await;
    assert_eq!(batch["embeddings"][0], one["embedding"]);
    assert_eq!(batch["embeddings"].as_array().unwrap().len(), 2);
    let whole = json!({"content": {"parts": [{"text": "A whale"}]}});
    let whole = ask(&running, &path("embedContent"), &whole).await;
    assert_eq!(vector(&whole["embedding"]["values"]).len(), 3_072);
    for (method, body) in [
        ("embedContent", json!({})),
        ("batchEmbedContents", json!({"requests": []})),
    ] {
        let got = post(&running, &path(method), &body).await;
        assert_eq!(got.status, 400);
        assert_eq!(got.json()["error"]["status"], "INVALID_ARGUMENT");
    }
    let other = post(&running, "/v1beta/models/other:embedContent", &content("x")).await;
    assert_eq!(other.status, 404);
}

//! Unit tests of `src/cloud.rs`.

use super::*;

#[test]
fn cloud_model_names_map_to_the_original_names() {
    for (name, original) in [
        (
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            Some("claude-sonnet-4-5-20250929"),
        ),
        ("us.anthropic.claude-opus-4-6-v1", Some("claude-opus-4-6")),
        ("global.anthropic.claude-opus-4-8", Some("claude-opus-4-8")),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5",
            Some("claude-opus-5"),
        ),
        ("claude-opus-5@default", Some("claude-opus-5")),
        (
            "claude-sonnet-4-5@20250929",
            Some("claude-sonnet-4-5@20250929"),
        ),
        ("amazon.nova-lite-v1:0", None),
    ] {
        assert_eq!(Cloud::original_name(name), original, "{name}");
    }
}

#[test]
fn base_urls_follow_the_region() {
    let url = |cloud: Cloud, variable: &str, region: &str| {
        cloud.base_url(&[(variable.to_owned(), region.to_owned())].into())
    };
    let vertex = |region| url(Cloud::Vertex, "CLOUD_ML_REGION", region);
    assert_eq!(vertex(""), "https://aiplatform.googleapis.com/v1");
    assert_eq!(vertex("us"), "https://aiplatform.us.rep.googleapis.com/v1");
    let one = "https://us-east5-aiplatform.googleapis.com/v1";
    assert_eq!(vertex("us-east5"), one);
    let bedrock = |variable| url(Cloud::Bedrock, variable, "eu-west-1");
    let ireland = "https://bedrock-runtime.eu-west-1.amazonaws.com";
    assert_eq!(bedrock("AWS_DEFAULT_REGION"), ireland);
}

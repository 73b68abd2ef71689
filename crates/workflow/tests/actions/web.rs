//! `web.search`, against a stand-in for SearXNG.

use serde_json::{Value, json};

use crate::fakes::{SearXng, Server};
use crate::fixture::Fixture;

fn found() -> Vec<Value> {
    vec![
        json!({"title": "One", "url": "https://one.example/", "content": "first", "score": 2.5, "engine": "x"}),
        json!({"title": "Two", "url": "https://two.example/", "content": null}),
        json!({"url": "https://three.example/"}),
    ]
}

#[tokio::test]
async fn results_are_title_url_and_snippet() {
    let instance = SearXng::start(found());
    let fixture = Fixture::new();
    let answer = fixture
        .ok(
            "web.search",
            json!({"query": "sperm whale & co", "base_url": instance.base_url(), "language": "en"}),
        )
        .await;
    assert_eq!(
        answer,
        json!({
            "query": "sperm whale & co",
            "count": 3,
            "results": [
                {"title": "One", "url": "https://one.example/", "snippet": "first"},
                {"title": "Two", "url": "https://two.example/", "snippet": ""},
                {"title": "", "url": "https://three.example/", "snippet": ""},
            ],
            "success": true,
        })
    );
    let asked = instance.last_asked();
    assert_eq!(
        (
            asked["q"].as_str(),
            asked["format"].as_str(),
            asked["language"].as_str()
        ),
        ("sperm whale & co", "json", "en")
    );
}

#[tokio::test]
async fn limit_bounds_the_results() {
    let instance = SearXng::start(found());
    let fixture = Fixture::new();
    let answer = fixture
        .ok(
            "actions.web_search",
            json!({"query": "q", "limit": "1", "base_url": instance.base_url()}),
        )
        .await;
    assert_eq!(
        (
            &answer["count"],
            answer["results"].as_array().unwrap().len()
        ),
        (&json!(1), 1)
    );
    let other = json!({"query": "q", "num_results": 2, "base_url": instance.base_url()});
    assert_eq!(fixture.ok("web.search", other).await["count"], 2);
    for limit in [0, 101] {
        assert_eq!(
            fixture
                .fails(
                    "web.search",
                    json!({"query": "q", "limit": limit, "base_url": instance.base_url()})
                )
                .await
                .kind,
            "validation_error"
        );
    }
}

#[tokio::test]
async fn instance_is_taken_from_argument_settings_or_environment() {
    let (one, other) = (SearXng::start(found()), SearXng::start(found()));
    let fixture = Fixture::new().with_variable("SEARXNG_BASE_URL", &other.base_url());
    fixture
        .ok("web.search", json!({"query": "by environment"}))
        .await;
    assert_eq!(
        fixture.implicit("web.search", json!({"query": "q"})),
        json!({"base_url": other.base_url()})
    );
    let fixture = fixture
        .with_settings(json!({"web": {"search": {"base_url": format!("{}/", one.base_url())}}}));
    fixture
        .ok("web.search", json!({"query": "by settings"}))
        .await;
    assert_eq!(
        fixture.implicit("web.search", json!({"query": "q"})),
        json!({"base_url": one.base_url()})
    );
    fixture
        .ok(
            "web.search",
            json!({"query": "by argument", "base_url": other.base_url()}),
        )
        .await;
    assert!(
        fixture
            .implicit(
                "web.search",
                json!({"query": "q", "base_url": other.base_url()})
            )
            .is_null()
    );
    assert_eq!(one.queries(), ["by settings"]);
    assert_eq!(other.queries(), ["by environment", "by argument"]);
}

#[tokio::test]
async fn missing_instance_error_names_all_three_sources() {
    let failure = Fixture::new()
        .fails("web.search", json!({"query": "q"}))
        .await;
    assert_eq!(failure.kind, "configuration_error");
    for place in [
        "`base_url`",
        "`settings.web.search.base_url`",
        "SEARXNG_BASE_URL",
    ] {
        assert!(failure.message.contains(place), "{failure}");
    }
}

#[tokio::test]
async fn response_of_another_server_is_a_failure() {
    let instance = SearXng::start(found());
    instance.refuse_json();
    let fixture = Fixture::new();
    let failure = fixture
        .fails(
            "web.search",
            json!({"query": "q", "base_url": instance.base_url()}),
        )
        .await;
    assert_eq!(failure.kind, "auth_error");
    assert!(failure.message.contains("search.formats"), "{failure}");
    let other = Server::start(
        axum::Router::new().route("/search", axum::routing::get(|| async { "<html>" })),
    );
    let failure = fixture
        .fails(
            "web.search",
            json!({"query": "q", "base_url": other.base_url()}),
        )
        .await;
    assert_eq!(failure.kind, "parse_error");
    let failure = fixture
        .fails("web.search", json!({"query": "q", "base_url": "not a url"}))
        .await;
    assert_eq!(failure.kind, "validation_error");
    assert_eq!(
        fixture
            .fails(
                "web.search",
                json!({"query": "", "base_url": other.base_url()})
            )
            .await
            .kind,
        "validation_error"
    );
}

//! `llamaextract.extract`, against a stand-in for LlamaCloud.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fakes::LlamaCloud;
use crate::fixture::Fixture;

const KEY: &str = "llx-the-key-of-the-test-account";

fn cloud() -> LlamaCloud {
    LlamaCloud::start(KEY).agent(
        "invoices",
        json!({"total": 12.5, "number": 9_007_199_254_740_993_u64}),
    )
}

fn fixture(cloud: &LlamaCloud) -> Fixture {
    let fixture = Fixture::new()
        .with_variable("LLAMA_CLOUD_API_KEY", KEY)
        .with_variable("LLAMA_CLOUD_BASE_URL", &cloud.base_url());
    fixture.file("in/invoice 1.pdf", "%PDF-1.4 \0 binary\r\n--x");
    fixture
}

fn invoice(more: Value) -> Value {
    let mut arguments =
        json!({"file": "in/invoice 1.pdf", "agent_name": "invoices", "poll_interval": 0.01});
    arguments
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    arguments
}

#[tokio::test]
async fn document_is_uploaded_and_its_data_returned() {
    let cloud = cloud();
    let result = fixture(&cloud)
        .ok("llamaextract.extract", invoice(json!({})))
        .await;
    assert_eq!(
        result,
        json!({
            "success": true,
            "data": {"total": 12.5, "number": 9_007_199_254_740_993_u64},
            "extraction_metadata": {"usage": {"num_pages_extracted": 1}},
            "status": "SUCCESS",
            "job_id": "job-1",
            "file_id": "file-1",
            "agent_id": "agent-invoices",
            "agent_name": "invoices",
        })
    );
    assert_eq!((cloud.uploads(), cloud.started(), cloud.looks()), (1, 1, 2));
    let files = cloud.files();
    assert_eq!(
        (files[0].name.as_str(), files[0].content.as_slice()),
        ("document.pdf", b"%PDF-1.4 \0 binary\r\n--x".as_slice())
    );
    assert_eq!(
        cloud.requests(),
        [json!({"extraction_agent_id": "agent-invoices", "file_id": "file-1"})]
    );
}

#[tokio::test]
async fn agent_is_sent_by_id_and_schema_inline() {
    let cloud = cloud();
    let fixture = fixture(&cloud);
    let schema = json!({"type": "object", "properties": {"total": {"type": "number"}}});
    let result = fixture.ok("actions.llamaextract_extract", json!({"file": "in/invoice 1.pdf", "agent_id": "agent-invoices", "schema": schema, "poll_interval": 0.01})).await;
    assert_eq!(result["data"]["total"], 12.5);
    assert!(result.get("agent_name").is_none());
    assert_eq!(cloud.requests()[0]["data_schema_override"], schema);
    let result = fixture
        .ok(
            "llamaextract.extract",
            json!({"file": "in/invoice 1.pdf", "schema": schema, "poll_interval": 0.01}),
        )
        .await;
    assert_eq!(result["data"], json!({"extracted_by": schema}));
}

#[tokio::test]
async fn mode_is_allowed_with_a_schema_only() {
    let cloud = cloud();
    let fixture = fixture(&cloud);
    let schema = json!({"type": "object", "properties": {"total": {"type": "number"}}});
    let with = |more: Value| {
        let mut arguments =
            json!({"file": "in/invoice 1.pdf", "schema": schema, "polling_interval": 0.01});
        let fields = arguments.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        arguments
    };
    for (more, config) in [
        (json!({}), json!({})),
        (
            json!({"mode": "premium", "use_rest": true}),
            json!({"extraction_mode": "PREMIUM"}),
        ),
        (
            json!({"mode": "BALANCED", "use_rest": false}),
            json!({"extraction_mode": "BALANCED"}),
        ),
    ] {
        let cloud = self::cloud();
        self::fixture(&cloud)
            .ok("llamaextract.extract", with(more))
            .await;
        assert_eq!(cloud.requests()[0]["config"], config);
    }
    let uploads = cloud.uploads();
    for (more, says) in [
        (json!({"mode": "SLOW"}), "`SLOW`"),
        (
            json!({"mode": "FAST", "agent_name": "invoices"}),
            "an agent has its own",
        ),
        (json!({"poll_interval": 1}), "are one parameter"),
    ] {
        let failure = fixture.fails("llamaextract.extract", with(more)).await;
        assert_eq!(failure.kind, "validation_error", "{failure}");
        assert!(failure.message.contains(says), "{failure}");
    }
    assert_eq!(cloud.uploads(), uploads);
}

#[tokio::test]
async fn arguments_are_checked_before_the_upload() {
    let cloud = cloud();
    let fixture = fixture(&cloud);
    for (arguments, kind) in [
        (json!({"file": "in/invoice 1.pdf"}), "validation_error"),
        (
            json!({"file": "in/invoice 1.pdf", "agent_name": null}),
            "validation_error",
        ),
        (invoice(json!({"agent_id": "a"})), "validation_error"),
        (invoice(json!({"agent_name": "invoces/../x"})), "http_error"),
        (invoice(json!({"file": "absent.pdf"})), "not_found"),
        (invoice(json!({"poll_interval": 0})), "validation_error"),
    ] {
        assert_eq!(
            fixture
                .fails("llamaextract.extract", arguments.clone())
                .await
                .kind,
            kind,
            "{arguments}"
        );
    }
    assert_eq!(cloud.uploads(), 0);
}

#[tokio::test]
async fn key_is_required_and_never_shown() {
    let cloud = cloud();
    let missing = Fixture::new().with_variable("LLAMA_CLOUD_BASE_URL", &cloud.base_url());
    let failure = missing
        .fails("llamaextract.extract", invoice(json!({})))
        .await;
    assert_eq!(failure.kind, "configuration_error");
    assert!(
        failure.message.contains("LLAMA_CLOUD_API_KEY")
            && failure.message.contains("settings.llamaextract.api_key"),
        "{failure}"
    );
    let wrong = fixture(&cloud)
        .with_settings(json!({"llamaextract": {"api_key": "a-wrong-key-that-is-shown-back"}}));
    let failure = wrong
        .fails("llamaextract.extract", invoice(json!({})))
        .await;
    assert_eq!((failure.kind, failure.retryable), ("auth_error", false));
    assert!(
        failure.message.contains("401") && !failure.message.contains("a-wrong-key"),
        "{failure}"
    );
    assert!(
        wrong
            .runtime
            .secret_set
            .occurs_in(b"a-wrong-key-that-is-shown-back")
    );
}

#[tokio::test]
async fn settings_override_the_environment_and_only_the_base_url_is_keyed() {
    let cloud = cloud();
    let fixture = fixture(&cloud)
        .with_variable("LLAMA_CLOUD_BASE_URL", "http://127.0.0.1:9")
        .with_variable("LLAMA_CLOUD_API_KEY", "another")
        .with_settings(
            json!({"llamaextract": {"api_key": KEY, "base_url": format!("{}/", cloud.base_url())}}),
        );
    fixture.ok("llamaextract.extract", invoice(json!({}))).await;
    let implicit = fixture.implicit("llamaextract.extract", invoice(json!({})));
    assert_eq!(implicit["base_url"], cloud.base_url());
    assert_eq!(
        implicit["file"]["relative_to"],
        fixture.runtime.directory.to_str().unwrap()
    );
    assert!(!implicit.to_string().contains("llx"));
    let implicit = Fixture::new().implicit(
        "llamaextract.extract",
        json!({"file": "/x", "agent_name": "a"}),
    );
    assert_eq!(
        implicit,
        json!({"base_url": "https://api.cloud.llamaindex.ai", "uploaded_as": "document"})
    );
}

#[tokio::test]
async fn a_failed_job_is_reported_with_its_reason() {
    for status in ["ERROR", "CANCELLED"] {
        let cloud = cloud().ending_as(status, Some(&format!("the document is empty ({KEY})")));
        let failure = fixture(&cloud)
            .fails("llamaextract.extract", invoice(json!({})))
            .await;
        assert_eq!(
            (failure.kind, failure.retryable),
            ("extraction_failed", false)
        );
        assert!(
            failure.message.contains(status)
                && failure.message.contains("the document is empty ([secret])"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_partial_result_is_returned_without_success() {
    let cloud = cloud().ending_as("PARTIAL_SUCCESS", None);
    let result = fixture(&cloud)
        .ok("llamaextract.extract", invoice(json!({})))
        .await;
    assert_eq!(
        (
            &result["success"],
            &result["status"],
            &result["data"]["total"]
        ),
        (&json!(false), &json!("PARTIAL_SUCCESS"), &json!(12.5))
    );
}

#[tokio::test]
async fn transient_poll_failure_starts_no_second_job() {
    let cloud = cloud().failing_looks(3);
    let result = fixture(&cloud)
        .ok("llamaextract.extract", invoice(json!({})))
        .await;
    assert_eq!(result["success"], true);
    assert_eq!((cloud.started(), cloud.looks()), (1, 5));
}

#[tokio::test]
async fn unknown_statuses_count_as_running() {
    let cloud = cloud().ending_as("REINDEXING", None);
    let begun = Instant::now();
    let failure = fixture(&cloud)
        .fails("llamaextract.extract", invoice(json!({"timeout": 0.3})))
        .await;
    assert_eq!((failure.kind, failure.retryable), ("timeout", true));
    assert!(begun.elapsed() < Duration::from_secs(60) && cloud.looks() > 2);
}

#[tokio::test]
async fn a_dropped_call_stops_polling() {
    let cloud = cloud().looks_until_end(u32::MAX);
    let fixture = fixture(&cloud);
    let call = tokio::spawn(async move {
        fixture
            .run("llamaextract.extract", invoice(json!({})))
            .await
    });
    while cloud.looks() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let looks = cloud.looks();
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(cloud.looks() <= looks + 1);
}

#[tokio::test]
async fn uploaded_extension_is_keyed_with_file_content() {
    let cloud = cloud();
    let fixture = fixture(&cloud);
    let content = "%PDF-1.4 \0 binary\r\n--x";
    fixture.file("moved/copy.pdf", content);
    fixture.file("in/invoice 1.txt", content);
    let call = |file: &str| {
        json!({
            "action": "llamaextract.extract",
            "args": invoice(json!({"file": file})),
            "key_strategy": "file_content",
        })
    };
    assert!(!fixture.wrapped(call("in/invoice 1.pdf")).await.0);
    assert!(fixture.wrapped(call("moved/copy.pdf")).await.0);
    assert!(!fixture.wrapped(call("in/invoice 1.txt")).await.0);
    let mut names: Vec<String> = cloud.files().iter().map(|file| file.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["document.pdf", "document.txt"]);
}

#[test]
fn names_without_an_extension_are_uploaded_as_document() {
    let fixture = Fixture::new();
    for (file, name) in [
        ("d.x/report", "document"),
        (".pdf", "document"),
        ("no. 5 of Bob", "document"),
        ("a.TAR.gz", "document.gz"),
        ("https://example.org/a.PDF?x=.txt", "document.PDF"),
        ("s3://b/k.docx", "document.docx"),
    ] {
        let implicit = fixture.implicit(
            "llamaextract.extract",
            json!({"file": file, "agent_id": "a"}),
        );
        assert_eq!(implicit["uploaded_as"], name, "{file}");
    }
}

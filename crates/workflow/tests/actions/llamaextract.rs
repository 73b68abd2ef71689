//! `llamaextract.extract`, against a stand-in for LlamaCloud.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stand_ins::LlamaCloud;
use crate::world::World;

const KEY: &str = "llx-the-key-of-the-test-account";

fn cloud() -> LlamaCloud {
    LlamaCloud::start(KEY).agent(
        "invoices",
        json!({"total": 12.5, "number": 9_007_199_254_740_993_u64}),
    )
}

fn world(cloud: &LlamaCloud) -> World {
    let world = World::new()
        .with_variable("LLAMA_CLOUD_API_KEY", KEY)
        .with_variable("LLAMA_CLOUD_BASE_URL", &cloud.base_url());
    world.file("in/invoice 1.pdf", "%PDF-1.4 \0 binary\r\n--x");
    world
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
async fn a_document_is_uploaded_extracted_and_its_data_returned() {
    let cloud = cloud();
    let result = world(&cloud)
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
async fn agents_go_by_id_and_schemas_by_themselves() {
    let cloud = cloud();
    let world = world(&cloud);
    let schema = json!({"type": "object", "properties": {"total": {"type": "number"}}});
    let result = world.ok("actions.llamaextract_extract", json!({"file": "in/invoice 1.pdf", "agent_id": "agent-invoices", "schema": schema, "poll_interval": 0.01})).await;
    assert_eq!(result["data"]["total"], 12.5);
    assert!(result.get("agent_name").is_none());
    assert_eq!(cloud.requests()[0]["data_schema_override"], schema);
    let result = world
        .ok(
            "llamaextract.extract",
            json!({"file": "in/invoice 1.pdf", "schema": schema, "poll_interval": 0.01}),
        )
        .await;
    assert_eq!(result["data"], json!({"extracted_by": schema}));
}

#[tokio::test]
async fn a_mode_goes_with_a_schema_and_not_with_an_agent() {
    let cloud = cloud();
    let world = world(&cloud);
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
        self::world(&cloud)
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
        let failure = world.fails("llamaextract.extract", with(more)).await;
        assert_eq!(failure.kind, "validation_error", "{failure}");
        assert!(failure.message.contains(says), "{failure}");
    }
    assert_eq!(cloud.uploads(), uploads);
}

#[tokio::test]
async fn arguments_are_checked_before_the_upload() {
    let cloud = cloud();
    let world = world(&cloud);
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
            world
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
async fn the_key_is_needed_and_never_shown() {
    let cloud = cloud();
    let missing = World::new().with_variable("LLAMA_CLOUD_BASE_URL", &cloud.base_url());
    let failure = missing
        .fails("llamaextract.extract", invoice(json!({})))
        .await;
    assert_eq!(failure.kind, "configuration_error");
    assert!(
        failure.message.contains("LLAMA_CLOUD_API_KEY")
            && failure.message.contains("settings.llamaextract.api_key"),
        "{failure}"
    );
    let wrong = world(&cloud)
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
async fn settings_come_before_the_environment_and_the_base_url_is_keyed_and_the_key_is_not() {
    let cloud = cloud();
    let world = world(&cloud)
        .with_variable("LLAMA_CLOUD_BASE_URL", "http://127.0.0.1:9")
        .with_variable("LLAMA_CLOUD_API_KEY", "another")
        .with_settings(
            json!({"llamaextract": {"api_key": KEY, "base_url": format!("{}/", cloud.base_url())}}),
        );
    world.ok("llamaextract.extract", invoice(json!({}))).await;
    let implicit = world.implicit("llamaextract.extract", invoice(json!({})));
    assert_eq!(implicit["base_url"], cloud.base_url());
    assert_eq!(
        implicit["file"]["relative_to"],
        world.runtime.directory.to_str().unwrap()
    );
    assert!(!implicit.to_string().contains("llx"));
    let implicit = World::new().implicit(
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
        let failure = world(&cloud)
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
    let result = world(&cloud)
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
async fn a_transient_poll_failure_does_not_start_a_second_job() {
    let cloud = cloud().failing_looks(3);
    let result = world(&cloud)
        .ok("llamaextract.extract", invoice(json!({})))
        .await;
    assert_eq!(result["success"], true);
    assert_eq!((cloud.started(), cloud.looks()), (1, 5));
}

#[tokio::test]
async fn unknown_statuses_count_as_running() {
    let cloud = cloud().ending_as("REINDEXING", None);
    let begun = Instant::now();
    let failure = world(&cloud)
        .fails("llamaextract.extract", invoice(json!({"timeout": 0.3})))
        .await;
    assert_eq!((failure.kind, failure.retryable), ("timeout", true));
    assert!(begun.elapsed() < Duration::from_secs(5) && cloud.looks() > 2);
}

#[tokio::test]
async fn a_dropped_call_stops_polling() {
    let cloud = cloud().looks_until_end(u32::MAX);
    let world = world(&cloud);
    let call =
        tokio::spawn(async move { world.run("llamaextract.extract", invoice(json!({}))).await });
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
async fn only_the_extension_is_uploaded_and_it_is_keyed_with_file_content_keys() {
    let cloud = cloud();
    let world = world(&cloud);
    let content = "%PDF-1.4 \0 binary\r\n--x";
    world.file("moved/copy.pdf", content);
    world.file("in/invoice 1.txt", content);
    let call = |file: &str| {
        json!({
            "action": "llamaextract.extract",
            "args": invoice(json!({"file": file})),
            "key_strategy": "file_content",
        })
    };
    assert!(!world.wrapped(call("in/invoice 1.pdf")).await.0);
    assert!(world.wrapped(call("moved/copy.pdf")).await.0);
    assert!(!world.wrapped(call("in/invoice 1.txt")).await.0);
    let mut names: Vec<String> = cloud.files().iter().map(|file| file.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["document.pdf", "document.txt"]);
}

#[test]
fn names_without_an_extension_are_uploaded_as_document() {
    let world = World::new();
    for (file, name) in [
        ("d.x/report", "document"),
        (".pdf", "document"),
        ("no. 5 of Bob", "document"),
        ("a.TAR.gz", "document.gz"),
        ("https://example.org/a.PDF?x=.txt", "document.PDF"),
        ("s3://b/k.docx", "document.docx"),
    ] {
        let implicit = world.implicit(
            "llamaextract.extract",
            json!({"file": file, "agent_id": "a"}),
        );
        assert_eq!(implicit["uploaded_as"], name, "{file}");
    }
}

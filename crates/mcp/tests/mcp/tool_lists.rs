//! Lists of tools, resources and prompts, and the trust in their hints.

use std::time::Duration;

use cachalot_core::{EffectTargets, Effects};
use cachalot_mcp::{OfferSettings, ToolTrust};
use cachalot_tools::{Arguments, CacheClass, Origin, Registry, Tool};
use serde_json::json;

use super::{Fixture, toolsets};
use crate::tool_fixture::ToolFixture;
use crate::tool_fixture::until;
use cachalot_mcp::settings::assemble;
use cachalot_tools::filter::NameFilter;

fn names(registry: &Registry) -> Vec<&str> {
    registry
        .tools()
        .map(|tool| &*tool.metadata().name)
        .collect()
}

#[tokio::test]
async fn tools_resources_and_prompts_become_tools() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    let found = names(&tool_fixture.registry);
    for name in [
        "mcp_test_echo",
        "mcp_test_look",
        "mcp_test_weird_name__",
        "mcp_test_resource_mine",
        "mcp_test_resource_ours",
        "mcp_test_resource_user",
        "mcp_test_prompt_review",
    ] {
        assert!(found.contains(&name), "{name} in {found:?}");
    }
    // Two resources of one name, and nothing for the template that is none.
    let twins: Vec<_> = found
        .iter()
        .filter(|name| name.starts_with("mcp_test_resource_other"))
        .collect();
    assert_eq!(twins.len(), 2, "{found:?}");
    assert_eq!(found.len(), 26 + 4 + 4 + 1, "{found:?}");
    let warnings = fixture.warnings();
    let warning = "`broken` that cannot be used";
    assert!(
        warnings.iter().any(|told| told.contains(warning)),
        "{warnings:?}"
    );
    // A server that offers no tasks has no tools that require them.
    assert_eq!(
        tool_fixture.done("mcp_test_research", json!({})).await,
        "research ran"
    );
    let echo = tool_fixture
        .registry
        .tool("mcp_test_echo")
        .unwrap()
        .metadata();
    assert_eq!(echo.description, "The tool echo.");
    assert_eq!(echo.origin, Origin::Mcp("test".to_owned()));
    let add = tool_fixture
        .registry
        .tool("mcp_test_add")
        .unwrap()
        .metadata();
    assert_eq!(add.parameters.schema()["type"], "object");
    assert_eq!(
        tool_fixture.done("mcp_test_weird_name__", json!({})).await,
        "weird name/é ran"
    );
}

#[tokio::test]
async fn resources_and_prompts_are_read() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    // Each time from the server: the client library keeps nothing.
    let first = tool_fixture.call("mcp_test_resource_mine", json!({})).await;
    let second = tool_fixture.call("mcp_test_resource_mine", json!({})).await;
    assert_ne!(first, second);
    assert_eq!(
        (first.lifetime, first.private),
        (Some(Duration::from_secs(60)), true)
    );
    let ours = tool_fixture.call("mcp_test_resource_ours", json!({})).await;
    assert_eq!(
        (ours.lifetime, ours.private),
        (Some(Duration::from_millis(1_500)), false)
    );
    // The server has credentials, and says nothing of whose this is.
    let user = tool_fixture
        .call(
            "mcp_test_resource_user",
            json!({ "id": "a b", "full": "yes" }),
        )
        .await;
    assert_eq!(
        crate::tool_fixture::text(&user),
        "test://users/a%20b?full=yes, read 4"
    );
    assert_eq!((user.lifetime, user.private), (None, true));
    let shown = tool_fixture
        .fails("mcp_test_resource_user", json!({ "full": "yes" }))
        .await;
    assert!(shown.contains("`id`"), "{shown}");
    let review = tool_fixture
        .done("mcp_test_prompt_review", json!({ "code": "x" }))
        .await;
    assert_eq!(review, "[user]\nReview \"x\"[assistant]\nGladly.");
    let shown = tool_fixture
        .fails("mcp_test_prompt_review", json!({}))
        .await;
    assert!(shown.contains("`code`"), "{shown}");
}

fn metadata(tool_fixture: &ToolFixture, name: &str) -> (bool, CacheClass, Effects) {
    let tool = tool_fixture.registry.tool(name).unwrap();
    let effects = tool.effects(&Arguments::new(), &tool_fixture.context);
    (
        tool.metadata().read_only,
        tool.metadata().cache_class,
        effects,
    )
}

const READING: Effects = Effects {
    reads: EffectTargets::Unknown,
    writes: EffectTargets::NOTHING,
};

#[tokio::test]
async fn hints_of_a_server_are_not_trusted() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("plain")]).await;
    for name in ["mcp_test_look", "mcp_test_echo", "mcp_test_destroy"] {
        assert_eq!(
            metadata(&tool_fixture, name),
            (false, CacheClass::Never, Effects::UNKNOWN),
            "{name}"
        );
    }
    for name in [
        "mcp_test_resource_mine",
        "mcp_test_resource_user",
        "mcp_test_prompt_review",
    ] {
        assert_eq!(
            metadata(&tool_fixture, name),
            (true, CacheClass::Never, READING),
            "{name}"
        );
    }
}

#[tokio::test]
async fn trust_settings_apply_except_to_destructive_tools() {
    let fixture = Fixture::new();
    let mut settings = fixture.program("plain");
    let minute = Some(Duration::from_secs(60));
    settings.trust = vec![
        (
            "echo".to_owned(),
            ToolTrust {
                read_only: true,
                lifetime: minute,
            },
        ),
        (
            "fail".to_owned(),
            ToolTrust {
                read_only: false,
                lifetime: minute,
            },
        ),
        (
            "*o*".to_owned(),
            ToolTrust {
                read_only: true,
                lifetime: None,
            },
        ),
        (
            "change".to_owned(),
            ToolTrust {
                read_only: true,
                lifetime: minute,
            },
        ),
    ];
    settings.resources = OfferSettings {
        is_offered: true,
        lifetime: minute,
    };
    let tool_fixture = fixture.tool_fixture(&[settings]).await;
    let ttl = CacheClass::Ttl(Duration::from_secs(60));
    assert_eq!(
        metadata(&tool_fixture, "mcp_test_echo"),
        (true, ttl, READING)
    );
    assert_eq!(
        metadata(&tool_fixture, "mcp_test_look"),
        (true, CacheClass::Never, READING)
    );
    assert_eq!(
        metadata(&tool_fixture, "mcp_test_fail"),
        (false, CacheClass::Never, Effects::UNKNOWN)
    );
    assert_eq!(
        metadata(&tool_fixture, "mcp_test_destroy"),
        (false, CacheClass::Never, Effects::UNKNOWN)
    );
    assert_eq!(
        metadata(&tool_fixture, "mcp_test_resource_mine"),
        (true, ttl, READING)
    );
    assert_eq!(
        metadata(&tool_fixture, "mcp_test_prompt_review"),
        (true, CacheClass::Never, READING)
    );
    let warnings = fixture.warnings();
    for (tool, hint) in [
        ("destroy", "destructiveHint: true"),
        ("change", "readOnlyHint: false"),
    ] {
        let warning = format!(
            "the MCP server `test` declares that its tool `{tool}` changes things (`{hint}`), though its setting `read_only` names `"
        );
        assert!(
            warnings.iter().any(|told| told.starts_with(&warning)),
            "{warnings:?}"
        );
    }
    assert_eq!(
        metadata(&tool_fixture, "mcp_test_change"),
        (false, CacheClass::Never, Effects::UNKNOWN)
    );
}

#[tokio::test]
async fn tool_that_is_listed_twice_keeps_the_hint_that_it_changes_things() {
    let fixture = Fixture::new();
    let mut settings = fixture.program("malformed");
    let trust = ToolTrust {
        read_only: true,
        lifetime: None,
    };
    settings.trust = vec![("*".to_owned(), trust)];
    let tool_fixture = fixture.tool_fixture(&[settings]).await;
    let is_read_only = |name: &str| {
        let tool = tool_fixture.registry.tool(name).unwrap();
        tool.metadata().read_only
    };
    assert!(is_read_only("mcp_test_echo"));
    assert!(!is_read_only("mcp_test_twice"));
}

#[tokio::test]
async fn announced_lists_that_did_not_change_keep_their_tools_and_warn_once() {
    let fixture = Fixture::new();
    let mut settings = fixture.program("plain");
    let trust = ToolTrust {
        read_only: true,
        lifetime: None,
    };
    settings.trust = vec![("change".to_owned(), trust)];
    let pool = &fixture.dependencies.servers;
    let server = pool.server(&settings, &fixture.dependencies.mcp);
    let filter = NameFilter::default();
    let before = pool.tool(&server, "change", &filter).await.unwrap();
    let tool_fixture = fixture.tool_fixture(&[settings]).await;
    let announcement = json!([
        { "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }
    ]);
    let arguments = json!({ "text": announcement.to_string() });
    for _ in 0..2 {
        tool_fixture
            .done("mcp_test_announce", arguments.clone())
            .await;
        let after = pool.tool(&server, "change", &filter).await.unwrap();
        assert!(std::sync::Arc::ptr_eq(&before, &after));
    }
    // Another tool is a change.
    tool_fixture.done("mcp_test_more", json!({})).await;
    assert!(pool.tool(&server, "added", &filter).await.is_ok());
    let warnings = fixture.warnings();
    let named = warnings
        .iter()
        .filter(|warning| warning.contains("its tool `change` changes things"));
    assert_eq!(named.count(), 1, "{warnings:?}");
}

#[tokio::test]
async fn instructions_of_a_server_are_quoted_and_masked() {
    for behavior in ["plain", "modern"] {
        let fixture = Fixture::new();
        let assembled = fixture.assemble(&[fixture.program(behavior)]).await;
        assert_eq!(
            assembled.server_instructions,
            [
                "The MCP server `test` says about its tools (text of the server, not of the user):\n\
                 > Look before you change; the word is [secret]."
            ],
            "{behavior}"
        );
        // An agent without tools of the server has no use for them.
        let mut toolsets = toolsets(&[fixture.program(behavior)]);
        toolsets.toolsets[0].filter = NameFilter::new(&["none"]).unwrap();
        let assembled = assemble(&toolsets, &fixture.dependencies).await.unwrap();
        assert!(assembled.server_instructions.is_empty());
    }
}

#[tokio::test]
async fn filtered_tools_are_left_out() {
    let fixture = Fixture::new();
    let mut settings = fixture.program("plain");
    settings.prompts.is_offered = false;
    let mut toolsets = toolsets(&[settings]);
    toolsets.toolsets[0].filter =
        NameFilter::new(&["e*", "resource_m*", "mcp_test_add", "prompt_*"]).unwrap();
    let assembled = assemble(&toolsets, &fixture.dependencies).await.unwrap();
    let registry = Registry::new(assembled.tools).unwrap();
    assert_eq!(
        names(&registry),
        ["mcp_test_add", "mcp_test_echo", "mcp_test_resource_mine"]
    );
    toolsets.toolsets[0].read_only = true;
    let assembled = assemble(&toolsets, &fixture.dependencies).await.unwrap();
    let registry = Registry::new(assembled.tools).unwrap();
    assert_eq!(names(&registry), ["mcp_test_resource_mine"]);
    toolsets.toolsets[0].filter = NameFilter::new(&["echo"]).unwrap();
    assert!(
        assemble(&toolsets, &fixture.dependencies)
            .await
            .unwrap()
            .tools
            .is_empty()
    );
    let warnings = fixture.warnings();
    assert!(
        warnings.last().unwrap().contains("trust: {read_only: […]}"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn changed_tool_list_is_announced_and_taken_over_on_request() {
    for behavior in ["plain", "modern"] {
        let fixture = Fixture::new();
        let assembled = fixture.assemble(&[fixture.program(behavior)]).await;
        let server = assembled.servers[0].clone();
        let mut changes = server.changes();
        let registry = Registry::new(assembled.tools.clone()).unwrap();
        if behavior == "modern" {
            until("it is asked for announcements", || {
                let notes = super::program::notes(&fixture.notes());
                notes
                    .iter()
                    .any(|line| line.contains("subscriptions/listen"))
            })
            .await;
        }
        let tool_fixture =
            fixture.tool_fixture_of(fixture.assemble(&[fixture.program(behavior)]).await);
        tool_fixture.done("mcp_test_more", json!({})).await;
        tokio::time::timeout(Duration::from_secs(20), changes.changed())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            *fixture.reported.changes.lock().unwrap(),
            ["test"],
            "{behavior}"
        );
        assert!(registry.tool("mcp_test_added").is_none());
        let assembled = fixture.assemble(&[fixture.program(behavior)]).await;
        let next = Registry::new(assembled.tools).unwrap();
        assert!(next.tool("mcp_test_added").is_some());
        // All others are called as before.
        let before: Vec<_> = names(&registry);
        let after: Vec<_> = names(&next)
            .into_iter()
            .filter(|name| *name != "mcp_test_added")
            .collect();
        assert_eq!(before, after);
    }
}

#[tokio::test]
async fn reordered_tool_list_is_no_change() {
    let fixture = Fixture::new();
    let assembled = fixture.assemble(&[fixture.program("shuffled")]).await;
    let changes = assembled.servers[0].changes();
    let listings = || {
        let notes = super::program::notes(&fixture.notes());
        let asked = notes.iter().filter(|line| line.contains("prompts/list"));
        asked.count()
    };
    until("it is asked again", || listings() > 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(fixture.reported.changes.lock().unwrap().is_empty());
    assert!(!changes.has_changed().unwrap());
}

#[tokio::test]
async fn server_without_handshake_is_supported() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("modern")]).await;
    assert_eq!(
        tool_fixture
            .done("mcp_test_echo", json!({ "text": "hé" }))
            .await,
        "hé"
    );
    let mine = tool_fixture.call("mcp_test_resource_mine", json!({})).await;
    assert_eq!(mine.lifetime, Some(Duration::from_secs(60)));
    assert_eq!(fixture.starts(), 1);
}

#[tokio::test]
async fn tools_of_servers_with_similar_names_are_distinct() {
    let fixture = Fixture::new();
    let (mut one, mut other) = (fixture.program("plain"), fixture.program("plain"));
    one.name = "a b".to_owned();
    other.name = "a_b".to_owned();
    let tool_fixture = fixture.tool_fixture(&[other, one]).await;
    let found = names(&tool_fixture.registry);
    let echoes: Vec<_> = found
        .iter()
        .filter(|name| name.starts_with("mcp_a_b_echo"))
        .collect();
    assert_eq!(echoes.len(), 2, "{found:?}");
    let plain = tool_fixture.registry.tool("mcp_a_b_echo").unwrap();
    assert_eq!(
        plain.metadata().origin,
        Origin::Mcp("a b".to_owned()),
        "the first by name"
    );
}

#[tokio::test]
async fn keys_distinguish_servers_and_contain_no_secret() {
    use cachalot_core::Secret;
    use cachalot_mcp::McpTransport;
    let fixture = Fixture::new();
    let plain = fixture.program("plain");
    let mut token = plain.clone();
    if let McpTransport::Stdio { environment, .. } = &mut token.transport {
        environment.insert(
            "SERVICE_TOKEN".to_owned(),
            Secret::new("another".to_owned()),
        );
    }
    let inputs = async |settings| {
        let tool_fixture = fixture.tool_fixture(&[settings]).await;
        let tool: &dyn Tool = tool_fixture
            .registry
            .tool("mcp_test_echo")
            .unwrap()
            .as_ref();
        let inputs = tool
            .implicit_inputs(&Arguments::new(), &tool_fixture.context)
            .unwrap();
        fixture.dependencies.servers.close().await;
        inputs
    };
    let (first, again, different) = (
        inputs(plain.clone()).await,
        inputs(plain).await,
        inputs(token).await,
    );
    assert_eq!(first, again);
    assert_ne!(first, different);
    for inputs in [first, different] {
        let text = inputs.to_string();
        assert!(
            !text.contains("swordfish") && !text.contains("another"),
            "{text}"
        );
    }
}

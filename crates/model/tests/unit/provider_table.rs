//! Unit tests of `src/provider_table.rs`.

use super::*;

#[test]
fn providers_with_cache_markers_are_known() {
    use cachalot_wire::table::Rows;
    let text = include_str!("../../../wire/data/markers.yaml");
    let table: Rows<cachalot_wire::MarkerRules> = table::read("markers.yaml", text).unwrap();
    let known = ProviderTable::built_in();
    for provider in table.rows.iter().flat_map(|row| &row.providers) {
        assert!(known.provider(provider).is_some(), "{provider}");
    }
}

#[test]
fn built_in_table_is_valid() {
    let known: ProviderTable = table::read("providers.yaml", BUILT_IN).unwrap();
    for (name, provider) in &known.providers {
        if let Some(same_as) = &provider.same_as {
            assert!(known.provider(same_as).is_some(), "{name}");
            continue;
        }
        if let Some(url) = &provider.base_url {
            let url = url::Url::parse(url).unwrap();
            assert!(matches!(url.scheme(), "http" | "https"), "{name}");
        } else {
            let is_somewhere = provider.cloud.is_some() || !provider.base_url_variables.is_empty();
            assert!(is_somewhere, "{name} is nowhere");
        }
        assert!(
            !provider.needs_key || !provider.key_variables.is_empty(),
            "{name}"
        );
    }
    for (prefix, provider) in &known.prefixes {
        assert!(known.provider(provider).is_some(), "{prefix}: {provider}");
    }
}

#[test]
fn bare_model_names_map_to_their_provider() {
    let known = ProviderTable::built_in();
    for (model, owner) in [
        ("gpt-4o-mini", Some("openai")),
        ("ft:gpt-4o-mini:me::1", Some("openai")),
        ("chatgpt-4o-latest", Some("openai")),
        ("o1", Some("openai")),
        ("o3-mini", Some("openai")),
        ("o4-mini-2025-04-16", Some("openai")),
        ("claude-sonnet-5", Some("anthropic")),
        ("gemini-2.5-pro", Some("google")),
        ("o35", None),
        ("gpt", None),
        ("llama3.2", None),
        ("xclaude-1", None),
        ("", None),
    ] {
        assert_eq!(known.owner(model), owner, "{model}");
    }
}

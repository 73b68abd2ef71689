//! The conformance suite of the `cache.*` actions: the story's acceptance criteria, the checklists of
//! behaviours of the existing implementation, and each of its known defects, as tests that go through
//! the registry as a node does.
//!
//! Where the defects are tested (those that are not here, and why, are in [`skipped::SKIPPED`]):
//!
//! | defect | test |
//! |---|---|
//! | expired entries behind newer rows are never removed | `cleanup::fifty_expired_entries_behind_many_newer_ones_are_found` |
//! | invalidation stops after a thousand, or sees only the newest rows | `invalidate::there_is_no_hidden_limit` |
//! | nothing outlives a run | `persistence::entries_outlive_the_run_that_made_them` |
//! | a memory in trouble disables caching silently | `faults::a_memory_that_fails_at_everything_changes_no_result` |
//! | an identical fresh result never refreshes an expired entry | `lifetime::an_expired_entry_whose_fresh_result_is_the_same_is_refreshed` |
//! | invalidation deletes user memory | `invalidate::an_entry_of_the_cache_alone_goes` |
//! | no single-flight, lost stores | `concurrency::sixteen_callers_of_one_key_run_the_action_once`, `processes` |
//! | get and invalidate do not find what wrap stored | `keys::a_key_goes_round_through_wrap_get_and_invalidate` |
//! | keys leave other arguments out | `keys::sha256_keys_cover_the_other_arguments_too`, `content::every_other_argument_is_keyed_too` |
//! | a missing `key_source` shares one entry | `loading::a_key_source_that_is_not_among_the_arguments` |
//! | no `storage_hash` filter | `hashing::the_storage_hash_filter_makes_the_storys_key` |
//! | a hash failure caches under another key | `content::calls_with_unhashable_content_run_uncached` |
//! | a misspelt parameter, strategy or algorithm is ignored | `loading`, `hashing::hash_failures_are_errors` |
//! | a number as key crashes | `keys::a_key_that_a_template_made_a_number_is_its_text` |
//! | `"false"` is true | `keys::flags_from_templates_are_cast_to_booleans` |
//! | a lifetime of 0, text or too many days never caches, silently | `lifetime` |
//! | exceptions of a wrapped action are swallowed | `responses::a_failing_action_fails_the_node_as_it_would_unwrapped` |
//! | the caller's filter is changed | `invalidate::the_callers_filter_is_not_changed` |
//! | an error without `success` is cached | `results::an_error_without_a_success_field_is_not_stored` |
//! | a foreign row crashes get | `get::a_foreign_record_under_the_handle_is_no_entry_and_no_fault` |
//! | search returns cache rows | `invalidate::search_in_user_memory_never_finds_entries_of_the_cache` |
//! | agent names corrupt keys and patterns | `keys::an_agents_name_cannot_reach_into_handles_or_patterns` |
//! | the file may change between hash and run | `content::a_file_that_changes_while_the_action_runs_is_not_stored` |
//! | results of secret-bearing calls are stored in clear | `secrets` |
//! | versions and settings are not keyed | `implicit` |
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../stand_ins/mod.rs"]
mod stand_ins;

mod acceptance;
mod acts;
mod agents;
mod cleanup;
mod concurrency;
mod content;
mod explain;
mod faults;
mod get;
mod hashing;
mod implicit;
mod invalidate;
mod keys;
mod lifetime;
mod llm;
mod llm_fallbacks;
mod llm_keys;
mod loading;
mod persistence;
mod processes;
mod properties;
mod responses;
mod results;
mod scopes;
mod secrets;
mod skipped;
mod troubled;
mod witnesses;
mod world;

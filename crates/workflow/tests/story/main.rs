//! The conformance suite of the `cache.*` actions: the story's acceptance criteria, the checklists of
//! behaviors of the existing implementation, and each of its known defects, as tests that go through
//! the registry as a node does.
//!
//! Where the defects are tested (those that are not here, and why, are in [`skipped::SKIPPED`]):
//!
//! | defect | test |
//! |---|---|
//! | expired entries behind newer rows are never removed | `cleanup::expired_entries_behind_newer_ones_are_erased` |
//! | invalidation stops after a thousand, or sees only the newest rows | `invalidate::invalidate_has_no_limit_of_entries` |
//! | nothing outlives a run | `persistence::entries_survive_the_run` |
//! | a memory in trouble disables caching silently | `faults::failing_store_changes_no_result` |
//! | an identical fresh result never refreshes an expired entry | `lifetime::expired_entry_with_an_equal_fresh_result_is_renewed` |
//! | invalidation deletes user memory | `invalidate::invalidate_erases_cache_entries_only` |
//! | no single-flight, lost stores | `concurrency::concurrent_callers_of_one_key_run_the_action_once`, `processes` |
//! | get and invalidate do not find what wrap stored | `keys::key_works_in_wrap_get_and_invalidate` |
//! | keys leave other arguments out | `keys::sha256_strategy_keys_the_other_arguments_too`, `content::arguments_besides_the_file_are_keyed` |
//! | a missing `key_source` shares one entry | `loading::key_source_without_such_an_argument_is_a_problem` |
//! | no `storage_hash` filter | `hashing::storage_hash_filter_makes_the_key_of_the_story` |
//! | a hash failure caches under another key | `content::calls_with_unhashable_content_run_uncached` |
//! | a misspelt parameter, strategy or algorithm is ignored | `loading`, `hashing::hash_failures_are_errors` |
//! | a number as key crashes | `keys::number_from_a_template_is_a_text_key` |
//! | `"false"` is true | `keys::flags_from_templates_are_cast_to_booleans` |
//! | a lifetime of 0, text or too many days never caches, silently | `lifetime` |
//! | exceptions of a wrapped action are swallowed | `responses::failing_action_fails_the_node_as_unwrapped` |
//! | the caller's filter is changed | `invalidate::filter_argument_is_not_modified` |
//! | an error without `success` is cached | `results::an_error_without_a_success_field_is_not_stored` |
//! | a foreign row crashes get | `get::foreign_record_under_the_handle_is_not_found` |
//! | search returns cache rows | `invalidate::ltm_search_never_finds_cache_entries` |
//! | agent names corrupt keys and patterns | `keys::agent_name_is_escaped_in_handles_and_patterns` |
//! | the file may change between hash and run | `content::file_changed_during_the_action_prevents_storing` |
//! | results of secret-bearing calls are stored in clear | `secrets` |
//! | versions and settings are not keyed | `implicit` |
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod acceptance;
mod agents;
mod cleanup;
mod concurrency;
mod content;
mod explain;
mod faults;
mod faulty_store;
mod fixture;
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
mod test_actions;
mod witnesses;

use cachalot_test_support::fakes;

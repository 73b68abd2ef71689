//! Witnesses of results, as far as they are known to be complete.

use cachalot_core::{EffectTarget, EffectTargets, Effects, Witnesses};

use cachalot_operation::{CacheClass, OperationMetadata, Origin, ToolOutput};

/// Returns the witnesses of a result besides the arguments: all that were recorded, or unknown. They are
/// known only for built-in tools that change nothing, and whose results depend on nothing but files, all of
/// which they record.
pub(crate) fn result_witnesses(
    metadata: &OperationMetadata,
    effects: &Effects,
    output: &ToolOutput,
    noted: Witnesses,
) -> Witnesses {
    let unknown = tool_witness_gap(metadata)
        .or_else(|| result_witness_gap(effects, output))
        .or_else(|| {
            recorded_nothing(metadata, effects, &noted)
                .then_some("it read files and noted nothing of them")
        });
    match unknown {
        Some(why) => Witnesses::unknown(why),
        None => noted,
    }
}

/// The reason why the witnesses of a tool's results are never known.
fn tool_witness_gap(metadata: &OperationMetadata) -> Option<&'static str> {
    match metadata.cache_class {
        _ if !metadata.read_only => Some("it may have changed something"),
        _ if metadata.origin != Origin::BuiltIn => {
            Some("it is not known what an MCP server looks at")
        }
        CacheClass::Never
        | CacheClass::Wrappable
        | CacheClass::EffectOnly
        | CacheClass::Excluded(_) => Some("its results are not declared as reusable"),
        CacheClass::Ttl(_) => Some("its results last for a time only"),
        CacheClass::Validated | CacheClass::Immutable => None,
    }
}

/// The reason why the witnesses of this result are not known.
fn result_witness_gap(effects: &Effects, output: &ToolOutput) -> Option<&'static str> {
    let reads_names = |touched: &Vec<EffectTarget>| {
        let is_name = |one: &EffectTarget| matches!(one, EffectTarget::Named(_));
        touched.iter().any(is_name)
    };
    match &effects.reads {
        _ if output.is_error => Some("it failed"),
        _ if output.private => Some("it is for this user alone"),
        _ if output.lifetime.is_some() => Some("its results last for a time only"),
        _ if !effects.writes.is_nothing() => Some("it may have changed something"),
        EffectTargets::Unknown => Some("it is not known what it read"),
        EffectTargets::Known(touched) if reads_names(touched) => {
            Some("it read something else than files, which may change unseen")
        }
        EffectTargets::Known(_) => None,
    }
}

fn recorded_nothing(metadata: &OperationMetadata, effects: &Effects, noted: &Witnesses) -> bool {
    metadata.cache_class == CacheClass::Validated
        && !effects.reads.is_nothing()
        && noted.items().is_ok_and(<[_]>::is_empty)
}

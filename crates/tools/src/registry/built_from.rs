//! Witnesses of results, as far as they are known to be complete.

use cachalot_core::{Effects, Extent, Touched, Witnesses};

use crate::tool::{About, Arguments, CacheClass, Context, Origin, Output, Tool};

/// Returns the effects of a call if its witnesses can be complete; otherwise unknown effects.
pub(super) fn effects(tool: &dyn Tool, arguments: &Arguments, context: &Context) -> Effects {
    match never_told(tool.about()) {
        None => tool.effects(arguments, context),
        Some(_) => Effects::UNKNOWN,
    }
}

/// Returns the witnesses of a result besides the arguments: all that were recorded, or unknown. They are
/// known only for built-in tools that change nothing, and whose results depend on nothing but files, all of
/// which they record.
pub(crate) fn built_from(
    about: &About,
    effects: &Effects,
    output: &Output,
    noted: Witnesses,
) -> Witnesses {
    let unknown = never_told(about)
        .or_else(|| not_told_now(effects, output))
        .or_else(|| {
            noted_nothing(about, effects, &noted)
                .then_some("it read files and noted nothing of them")
        });
    match unknown {
        Some(why) => Witnesses::unknown(why),
        None => noted,
    }
}

/// The reason why the witnesses of a tool's results are never known.
fn never_told(about: &About) -> Option<&'static str> {
    match about.class {
        _ if !about.read_only => Some("it may have changed something"),
        _ if about.origin != Origin::BuiltIn => Some("it is not known what an MCP server looks at"),
        CacheClass::Never => Some("nobody said that its results last"),
        CacheClass::Ttl(_) => Some("its results last for a time only"),
        CacheClass::Validated | CacheClass::Immutable => None,
    }
}

/// The reason why the witnesses of this result are not known.
fn not_told_now(effects: &Effects, output: &Output) -> Option<&'static str> {
    let reads_names = |touched: &Vec<Touched>| {
        let is_name = |one: &Touched| matches!(one, Touched::Named(_));
        touched.iter().any(is_name)
    };
    match &effects.reads {
        _ if output.is_error => Some("it failed"),
        _ if output.private => Some("it is for this user alone"),
        _ if output.lifetime.is_some() => Some("its results last for a time only"),
        _ if !effects.writes.is_nothing() => Some("it may have changed something"),
        Extent::Unknown => Some("it is not known what it read"),
        Extent::Known(touched) if reads_names(touched) => {
            Some("it read something else than files, which may change unseen")
        }
        Extent::Known(_) => None,
    }
}

fn noted_nothing(about: &About, effects: &Effects, noted: &Witnesses) -> bool {
    about.class == CacheClass::Validated
        && !effects.reads.is_nothing()
        && noted.items().is_ok_and(<[_]>::is_empty)
}

//! The attributes of settings.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, Path, Result, Token, Type};

/// The attributes of a struct or an enum.
#[derive(Default)]
pub(crate) struct MappingAttributes {
    /// `name`: the mapping in messages.
    pub(crate) name: Option<LitStr>,
    /// `sentence`: the sentence of the schema, if it is not that of the documentation comment.
    pub(crate) sentence: Option<LitStr>,
    /// `open`: accepts keys that are not declared.
    pub(crate) is_open: bool,
    /// `also`: keys without a field.
    pub(crate) also: Option<Path>,
    /// `check`: a function that checks or completes what depends on several keys.
    pub(crate) check: Option<Path>,
    /// `default`: the struct has the declared defaults, and so has an invalid value.
    pub(crate) has_default: bool,
}

/// The attributes of a field, or of a word.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    /// `key`: the name of the key.
    pub(crate) key: Option<LitStr>,
    /// `alias`: another spelling of the key.
    pub(crate) aliases: Vec<LitStr>,
    /// `range`: the bounds of a number, both inclusive.
    pub(crate) range: Option<(Expr, Expr)>,
    /// `kind`: the accepted values, if they are not those of the type.
    pub(crate) kind: Option<Expr>,
    /// `with`: a function that reads the value.
    pub(crate) with: Option<Path>,
    /// `default`: the value of a key that is left out.
    pub(crate) default: Option<DefaultValue>,
    /// `required`: to leave it out is a problem, although the field is an `Option`.
    pub(crate) is_required: bool,
    /// `then`: keys without a field that follow this one.
    pub(crate) following: Vec<Path>,
    /// `flatten`: the keys of the struct are those of the mapping.
    pub(crate) is_flattened: bool,
    /// `place`: the field is the place of the mapping, and no key.
    pub(crate) is_place: bool,
    /// `skip`: the field is no key.
    pub(crate) is_skipped: bool,
}

/// The value of a key that is left out.
pub(crate) enum DefaultValue {
    /// The default of the type, which the documentation does not state.
    OfType,
    /// A value that the documentation states.
    Stated(Expr),
}

impl MappingAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("settings"))
        {
            attribute.parse_nested_meta(|meta| {
                match identifier(&meta)?.as_str() {
                    "name" => parsed.name = Some(meta.value()?.parse()?),
                    "sentence" => parsed.sentence = Some(meta.value()?.parse()?),
                    "open" => parsed.is_open = true,
                    "also" => parsed.also = Some(meta.value()?.parse()?),
                    "check" => parsed.check = Some(meta.value()?.parse()?),
                    "default" => parsed.has_default = true,
                    _ => {
                        return Err(meta.error(
                            "expected `name`, `sentence`, `open`, `also`, `check` or `default`",
                        ));
                    }
                }
                Ok(())
            })?;
        }
        Ok(parsed)
    }
}

impl FieldAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("setting"))
        {
            attribute.parse_nested_meta(|meta| {
                match identifier(&meta)?.as_str() {
                    "key" => parsed.key = Some(meta.value()?.parse()?),
                    "alias" => parsed.aliases.push(meta.value()?.parse()?),
                    "range" => parsed.range = Some(range(&meta)?),
                    "kind" => parsed.kind = Some(meta.value()?.parse()?),
                    "with" => parsed.with = Some(meta.value()?.parse()?),
                    "default" => {
                        parsed.default = Some(if meta.input.peek(Token![=]) {
                            DefaultValue::Stated(meta.value()?.parse()?)
                        } else {
                            DefaultValue::OfType
                        });
                    }
                    "required" => parsed.is_required = true,
                    "then" => parsed.following.push(meta.value()?.parse()?),
                    "flatten" => parsed.is_flattened = true,
                    "place" => parsed.is_place = true,
                    "skip" => parsed.is_skipped = true,
                    _ => {
                        return Err(meta.error(
                            "expected `key`, `alias`, `range`, `kind`, `with`, `default`, `required`, `then`, `flatten`, `place` or `skip`",
                        ));
                    }
                }
                Ok(())
            })?;
        }
        Ok(parsed)
    }
}

fn identifier(meta: &ParseNestedMeta<'_>) -> Result<String> {
    meta.path
        .get_ident()
        .map(ToString::to_string)
        .ok_or_else(|| meta.error("expected a name"))
}

/// Parses `range = MINIMUM..=MAXIMUM`; without a maximum, there is none.
fn range(meta: &ParseNestedMeta<'_>) -> Result<(Expr, Expr)> {
    let expression: Expr = meta.value()?.parse()?;
    let Expr::Range(range) = &expression else {
        return Err(Error::new_spanned(
            expression,
            "expected `MINIMUM..=MAXIMUM`",
        ));
    };
    let Some(minimum) = range.start.as_deref() else {
        return Err(Error::new_spanned(range, "expected a minimum"));
    };
    let unlimited = if is_float(minimum) {
        syn::parse_quote!(f64::INFINITY)
    } else {
        syn::parse_quote!(u64::MAX)
    };
    let maximum = range.end.as_deref().cloned().unwrap_or(unlimited);
    Ok((minimum.clone(), maximum))
}

/// Returns true for the literal of a floating-point number.
pub(crate) fn is_float(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Lit(ExprLit {
            lit: Lit::Float(_),
            ..
        })
    )
}

/// Returns the first paragraph of a documentation comment, on one line.
pub(crate) fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(value) = &attribute.meta else {
            return None;
        };
        match &value.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) if value.path.is_ident("doc") => Some(text.value().trim().to_owned()),
            _ => None,
        }
    });
    let paragraph = lines.take_while(|line| !line.is_empty());
    paragraph.collect::<Vec<_>>().join(" ")
}

impl DefaultValue {
    /// Returns the declaration of the value of a key of this type, if it is stated.
    pub(crate) fn literal(&self, value: &Type) -> Result<Option<TokenStream>> {
        let Self::Stated(expression) = self else {
            return Ok(None);
        };
        let is_number = matches!(value, Type::Path(path) if path.path.is_ident("f64"));
        let kind = match expression {
            Expr::Path(_) if is_number => quote!(Number),
            Expr::Path(_) | Expr::Binary(_) | Expr::Cast(_) => quote!(Integer),
            Expr::Lit(literal) => match literal.lit {
                Lit::Int(_) => quote!(Integer),
                Lit::Float(_) => quote!(Number),
                Lit::Bool(_) => quote!(Boolean),
                Lit::Str(_) => quote!(Text),
                _ => return Err(unexpected_default(expression)),
            },
            _ => return Err(unexpected_default(expression)),
        };
        Ok(Some(
            quote!(::cachalot_core::config::Literal::#kind(#expression)),
        ))
    }
}

fn unexpected_default(expression: &Expr) -> Error {
    let expected = "expected a literal, or a constant expression for a number";
    Error::new_spanned(expression, expected)
}

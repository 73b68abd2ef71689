//! Interpolations of f-strings.

use ruff_python_ast::{ConversionFlag, Expr, InterpolatedStringElement, visitor};
use ruff_text_size::Ranged;

use super::{Writer, span};

impl<'a> Writer<'a> {
    /// Rewrites an interpolation with a format, and refuses those whose `repr` would differ.
    pub(super) fn interpolation(&mut self, element: &'a InterpolatedStringElement) {
        let before = self.debug;
        if let InterpolatedStringElement::Interpolation(it) = element {
            if matches!(it.conversion, ConversionFlag::Repr) && self.is_json_error(&it.expression) {
                self.refuse(
                    it.start().to_usize(),
                    "`{…!r}` with a caught error",
                    Some("`{repr(error)}` does the same"),
                );
            }
            self.debug = before || it.debug_text.is_some();
            let literal = matches!(
                *it.expression,
                Expr::NumberLiteral(_) | Expr::StringLiteral(_)
            );
            if matches!(it.conversion, ConversionFlag::None)
                && it.format_spec.is_some()
                && !literal
                && !self.debug
            {
                let (start, end) = span(&*it.expression);
                self.need("formatted", start);
                self.insert(start, "__formatted__((");
                visitor::walk_interpolated_string_element(self, element);
                self.insert(end, "))");
                self.debug = before;
                return;
            }
        }
        visitor::walk_interpolated_string_element(self, element);
        self.debug = before;
    }
}

//! Rewrites the normal forms of Unicode. The SQL grammar has their names as keywords: `normalize(s,
//! NFD)`, `s IS NFD NORMALIZED`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, NormalizationForm, Value,
};

use crate::names::fold;
use crate::parse::call;

/// Writes the name of a normal form as a string constant, and the test `s IS NFD NORMALIZED` as a
/// comparison.
pub fn respell(expr: &mut Expr) {
    match expr {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
            if name.as_deref() != Some("normalize") {
                return;
            }
            let FunctionArguments::List(list) = &mut function.args else { return };
            let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(form))] = list.args.as_mut_slice()
            else {
                return;
            };
            if let Expr::Identifier(name) = &*form
                && matches!(fold(name).as_str(), "nfc" | "nfd" | "nfkc" | "nfkd")
            {
                *form = text(&fold(name).to_uppercase());
            }
        }
        Expr::IsNormalized { expr: of, form, negated } => {
            let form = match form {
                None | Some(NormalizationForm::NFC) => "NFC",
                Some(NormalizationForm::NFD) => "NFD",
                Some(NormalizationForm::NFKC) => "NFKC",
                Some(NormalizationForm::NFKD) => "NFKD",
            };
            let op = if *negated { BinaryOperator::NotEq } else { BinaryOperator::Eq };
            let Some(normal) = call("normalize", vec![of.as_ref().clone(), text(form)]) else {
                return;
            };
            let compared = Expr::BinaryOp { left: of.clone(), op, right: Box::new(normal) };
            *expr = Expr::Nested(Box::new(compared));
        }
        _ => {}
    }
}

fn text(form: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(form.to_string()))
}

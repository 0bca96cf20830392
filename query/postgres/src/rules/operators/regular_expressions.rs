//! The operators `~`, `~*`, `!~` and `!~*`. A constant pattern is translated to the syntax of
//! DataFusion's regular expression engine, which evaluates it. A function of this project evaluates
//! all other patterns in PostgreSQL's syntax.

use std::{collections::BTreeMap, sync::Arc};

use datafusion::{
    common::{
        DFSchema, Result, config::ConfigOptions, metadata::FieldMetadata, tree_node::Transformed,
    },
    logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF, expr_rewriter::FunctionRewrite, lit},
    scalar::ScalarValue,
};
use stratalog_functions::regex;

/// Metadata that marks a constant pattern as already translated to the engine's syntax.
const SPELLED: &str = "stratalog:spelled";

/// Rewrites the operators of regular expressions.
#[derive(Debug)]
pub struct RegularExpressions {
    like: Arc<ScalarUDF>,
}

impl RegularExpressions {
    /// Creates the rewrite. `like` is the function `regexp_like`, which the rewrite calls.
    pub fn new(like: Arc<ScalarUDF>) -> Self {
        Self { like }
    }
}

impl FunctionRewrite for RegularExpressions {
    fn name(&self) -> &str {
        "regular_expressions"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let (any_case, negated) = match op {
            Operator::RegexMatch => (false, false),
            Operator::RegexIMatch => (true, false),
            Operator::RegexNotMatch => (false, true),
            Operator::RegexNotIMatch => (true, true),
            _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
        };
        if let Expr::Literal(value, metadata) = right.as_ref()
            && let Some(pattern) = value.try_as_str().flatten()
        {
            let is_spelled =
                metadata.as_ref().is_some_and(|metadata| metadata.inner().contains_key(SPELLED));
            let spelled = match is_spelled {
                true => Some(pattern.to_string()),
                false => regex::plain(pattern),
            };
            if let Some(spelled) = spelled {
                if spelled == pattern {
                    return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
                }
                let metadata = BTreeMap::from([(SPELLED.to_string(), String::new())]);
                let right = Box::new(Expr::Literal(
                    ScalarValue::Utf8(Some(spelled)),
                    Some(FieldMetadata::from(metadata)),
                ));
                return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
        }
        let mut arguments = vec![*left, *right];
        if any_case {
            arguments.push(lit("i"));
        }
        let matches = self.like.call(arguments);
        Ok(Transformed::yes(match negated {
            true => Expr::Not(Box::new(matches)),
            false => matches,
        }))
    }
}

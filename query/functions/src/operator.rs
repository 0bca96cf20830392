//! Plans operators of jsonb and arrays as function calls. Also converts literals that must have a
//! type before the planner checks the expression.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, ScalarValue},
    logical_expr::{
        BinaryExpr, Case, Expr, ExprSchemable, GetFieldAccess, ScalarUDF, cast, lit,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};
use stratalog_model::ColumnType;

use crate::literal;

/// Plans the operators of jsonb (such as `->`, `#>>`, `@>`, `||` and `?`), and `@>`, `<@` and `&&`
/// of arrays, as calls of functions.
#[derive(Debug)]
pub struct JsonOperators {
    functions: Vec<Arc<ScalarUDF>>,
}

impl JsonOperators {
    /// Creates the planner. `functions` contains the functions for the planned calls.
    pub fn new(functions: Vec<Arc<ScalarUDF>>) -> Self {
        Self { functions }
    }

    fn call(&self, name: &str, left: Expr, right: Expr) -> Option<Expr> {
        let function = self.functions.iter().find(|function| function.name() == name)?;
        Some(function.call(vec![left, right]))
    }

    /// Makes a call that returns true if the array `whole` contains all elements of the array
    /// `part`. A text literal gets the type of the other array.
    fn contains(&self, whole: &Expr, part: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        let left = literal::array_beside(whole, part, schema)?;
        let right = literal::array_beside(part, whole, schema)?;
        Ok(self.call("arraycontains", left, right))
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Null, _))
}

fn is_array(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::List(_) | DataType::LargeList(_)))
}

fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema)
        .is_ok_and(|(_, field)| ColumnType::from_arrow_field(&field) == Some(ColumnType::Jsonb))
}

/// True if `||` joins two jsonb values. Next to a jsonb operand, a constant also counts as jsonb.
fn joins_jsonb(expr: &RawBinaryExpr, schema: &DFSchema) -> bool {
    let (left, right) = (is_jsonb(&expr.left, schema), is_jsonb(&expr.right, schema));
    left && (right || matches!(expr.right, Expr::Literal(..)))
        || right && matches!(expr.left, Expr::Literal(..))
}

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if let Some((op, left, right)) = literal::typed_early(&expr, schema)? {
            return Ok(PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                op,
                Box::new(right),
            ))));
        }
        if let Some(op) = literal::distinct_operator(&expr.op) {
            let distinct = BinaryExpr::new(Box::new(expr.left), op, Box::new(expr.right));
            return Ok(PlannerResult::Planned(Expr::BinaryExpr(distinct)));
        }
        let by_position = expr.right.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
        let name = match (&expr.op, by_position) {
            (BinaryOperator::Arrow, true) => "jsonb_array_element",
            (BinaryOperator::Arrow, false) => "jsonb_object_field",
            (BinaryOperator::LongArrow, true) => "jsonb_array_element_text",
            (BinaryOperator::LongArrow, false) => "jsonb_object_field_text",
            (BinaryOperator::HashArrow, _) => "jsonb_extract_path",
            (BinaryOperator::HashLongArrow, _) => "jsonb_extract_path_text",
            (BinaryOperator::Question, _) => "jsonb_exists",
            (BinaryOperator::QuestionPipe, _) => "jsonb_exists_any",
            (BinaryOperator::QuestionAnd, _) => "jsonb_exists_all",
            (BinaryOperator::HashMinus, _) => "jsonb_delete_path",
            (BinaryOperator::Minus, _) if is_jsonb(&expr.left, schema) => "jsonb_delete",
            (BinaryOperator::StringConcat, _) if joins_jsonb(&expr, schema) => "jsonb_concat",
            // If the other operand is an array, an untyped NULL counts as an array.
            (BinaryOperator::StringConcat, _)
                if is_null(&expr.left) && is_array(&expr.right, schema) =>
            {
                return Ok(PlannerResult::Planned(expr.right));
            }
            (BinaryOperator::StringConcat, _)
                if is_null(&expr.right) && is_array(&expr.left, schema) =>
            {
                return Ok(PlannerResult::Planned(expr.left));
            }
            (BinaryOperator::PGOverlap, _) => {
                let left = literal::array_beside(&expr.left, &expr.right, schema)?;
                let right = literal::array_beside(&expr.right, &expr.left, schema)?;
                return Ok(match self.call("arrayoverlap", left, right) {
                    Some(call) => PlannerResult::Planned(call),
                    None => PlannerResult::Original(expr),
                });
            }
            (BinaryOperator::AtArrow, _) if is_jsonb(&expr.left, schema) => "jsonb_contains",
            (BinaryOperator::AtArrow, _)
                if is_array(&expr.left, schema) || is_array(&expr.right, schema) =>
            {
                return self.contains(&expr.left, &expr.right, schema).map(|call| match call {
                    Some(call) => PlannerResult::Planned(call),
                    None => PlannerResult::Original(expr),
                });
            }
            (BinaryOperator::ArrowAt, _)
                if is_array(&expr.left, schema) || is_array(&expr.right, schema) =>
            {
                return self.contains(&expr.right, &expr.left, schema).map(|call| match call {
                    Some(call) => PlannerResult::Planned(call),
                    None => PlannerResult::Original(expr),
                });
            }
            (BinaryOperator::ArrowAt, _) if is_jsonb(&expr.right, schema) => {
                return Ok(
                    match self.call("jsonb_contains", expr.right.clone(), expr.left.clone()) {
                        Some(call) => PlannerResult::Planned(call),
                        None => PlannerResult::Original(expr),
                    },
                );
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let right = match path_literal(&expr) {
            Some(path) => path,
            None => expr.right.clone(),
        };
        Ok(match self.call(name, expr.left.clone(), right) {
            Some(call) => PlannerResult::Planned(call),
            None => PlannerResult::Original(expr),
        })
    }
}

/// Plans subscripts of jsonb as function calls, because DataFusion's planner would treat them as
/// subscripts of lists and rows. Also corrects the subscripts of arrays to PostgreSQL's results.
#[derive(Debug)]
pub struct JsonSubscripts(JsonOperators);

impl Default for JsonSubscripts {
    fn default() -> Self {
        let functions = crate::json::functions().into_iter().chain(crate::arrays::functions());
        Self(JsonOperators::new(functions.map(|function| Arc::new(function.into_udf())).collect()))
    }
}

impl ExprPlanner for JsonSubscripts {
    fn plan_field_access(
        &self,
        mut expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if let GetFieldAccess::ListIndex { key } = &mut expr.field_access
            && key.get_type(schema).is_ok_and(|known| known.is_integer())
            && !is_jsonb(&expr.expr, schema)
        {
            let written = std::mem::take(key.as_mut());
            **key = from_first(written);
            return Ok(PlannerResult::Original(expr));
        }
        if let GetFieldAccess::ListRange { start, stop, .. } = &expr.field_access
            && is_array(&expr.expr, schema)
            && let Some(part) = self.0.functions.iter().find(|known| known.name() == "array_part")
        {
            let bounds = [start, stop].map(|bound| bound.as_ref().clone());
            let arguments = [expr.expr].into_iter().chain(bounds).collect();
            return Ok(PlannerResult::Planned(part.call(arguments)));
        }
        let call = subscript(&expr.field_access, schema)
            .filter(|_| is_jsonb(&expr.expr, schema))
            .and_then(|(name, key)| self.0.call(name, expr.expr.clone(), key));
        Ok(match call {
            Some(call) => PlannerResult::Planned(call),
            None => PlannerResult::Original(expr),
        })
    }
}

/// Makes an array index by which a negative value finds no element. DataFusion would count a
/// negative index from the end.
fn from_first(key: Expr) -> Expr {
    if let Expr::Literal(ScalarValue::Int64(Some(0..)), _) = key {
        return key;
    }
    let before = key.clone().lt(lit(0_i64));
    let choices = vec![(Box::new(before), Box::new(lit(0_i64)))];
    Expr::Case(Case::new(None, choices, Some(Box::new(key))))
}

/// The function and the argument for a subscript of jsonb, such as `j['key']` or `j[0]`. A
/// subscript is one step of a path: `j['0']` may find an element of an array, and `j[0]` a member
/// of an object. `None` for a range.
fn subscript(access: &GetFieldAccess, schema: &DFSchema) -> Option<(&'static str, Expr)> {
    match access {
        GetFieldAccess::NamedStructField { name } => {
            Some(("jsonb_extract_path", Expr::Literal(name.clone(), None)))
        }
        GetFieldAccess::ListIndex { key } => {
            let is_position = key.get_type(schema).is_ok_and(|known| known.is_integer());
            let key = key.as_ref().clone();
            let step = if is_position { cast(key, DataType::Utf8) } else { key };
            Some(("jsonb_extract_path", step))
        }
        GetFieldAccess::ListRange { .. } => None,
    }
}

/// If the right operand of `#>`, `#>>`, `#-`, `?|` or `?&` is a text such as `'{a,b,0}'`, converts
/// it to an array of texts.
fn path_literal(expr: &RawBinaryExpr) -> Option<Expr> {
    if !matches!(
        expr.op,
        BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
            | BinaryOperator::HashMinus
            | BinaryOperator::QuestionPipe
            | BinaryOperator::QuestionAnd
    ) {
        return None;
    }
    let Expr::Literal(literal, _) = &expr.right else { return None };
    let text = literal.try_as_str()??;
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let steps: Vec<ScalarValue> = inner
        .split(',')
        .map(str::trim)
        .filter(|step| !step.is_empty())
        .map(|step| ScalarValue::Utf8(Some(step.trim_matches('"').to_string())))
        .collect();
    let list = ScalarValue::new_list_nullable(&steps, &DataType::Utf8);
    Some(Expr::Literal(ScalarValue::List(list), None))
}

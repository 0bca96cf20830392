//! The parameters of a statement, `$1`, `$2` …: their types and values.

use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        ParamValues,
        metadata::{FieldMetadata, ScalarAndMetadata},
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{Expr as PlanExpr, LogicalPlan, expr::Placeholder},
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, DataType as SqlType,
        ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
        LimitClause, Query, Select, Statement, Subscript, TimezoneInfo, UnaryOperator, Value,
        ValueWithSpan,
    },
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Error, ErrorKind, Result, types::PG_TYPE_METADATA};

use super::{
    names::fold,
    walk::{self, Change, Look, Tree},
};
use crate::{
    errors::from_datafusion,
    rules::types::common_types::{ValueType, common_type},
};

mod arrays;
pub mod columns;
mod context_types;
mod exact_numerics;

pub use arrays::input_schema;
pub use exact_numerics::{exact, holds};

/// Maximum number of parameters of a statement, like in PostgreSQL's protocol.
pub const PARAMETERS_MAX: usize = 65_535;

/// The number in a parameter name, counted from 1; `None` for a name other than `$n`.
pub fn number(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse().ok().filter(|number| (1..=PARAMETERS_MAX).contains(number))
}

/// The number of parameters of a statement: the highest number in a parameter name.
///
/// # Errors
/// `UndefinedParameter` for a name other than `$n`.
pub fn count(statement: &impl Tree) -> Result<usize> {
    Ok(numbers(statement)?.last().copied().unwrap_or(0))
}

/// The numbers of the parameters that a tree contains.
///
/// # Errors
/// `UndefinedParameter` for a name other than `$n`.
pub fn numbers(tree: &impl Tree) -> Result<BTreeSet<usize>> {
    let mut numbers = BTreeSet::new();
    let mut unknown = None;
    let _ = walk::expressions(tree, |expr| {
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr {
            match number(name) {
                Some(number) => {
                    numbers.insert(number);
                }
                None => unknown = Some(name.clone()),
            }
        }
        ControlFlow::Continue(())
    });
    if let Some(name) = unknown {
        return Err(Error::new(
            ErrorKind::UndefinedParameter,
            format!("there is no parameter {name}"),
        ));
    }
    Ok(numbers)
}

/// Adds casts around the parameters of a statement: to the type from the client, to bigint in
/// LIMIT, OFFSET and FETCH, to boolean in place of a condition, and to integer at the ends of a
/// slice. Also stores the types that the statement itself names, as in `$1::int`, in
/// `declared_types`. `declared_types` must have one element for each parameter.
pub fn cast_to_declared(statement: &mut impl Tree, declared_types: &mut [Option<ColumnType>]) {
    let mut counts = CountCasts;
    let _ = walk::change(statement, &mut counts);
    if declared_types.iter().any(Option::is_some) {
        let mut caster = DeclaredCasts { declared_types };
        let _ = walk::change(statement, &mut caster);
    }
    let mut written = WrittenCasts { declared_types };
    let _ = walk::change(statement, &mut written);
}

/// For each parameter that the statement casts to a type that only PostgreSQL has, for example
/// `$1::oid`, the name of this type.
pub fn parameter_type_names(statement: &Statement, count: usize) -> Vec<Option<&'static str>> {
    struct Casts(Vec<Option<&'static str>>);
    impl Look for Casts {
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Cast { expr: inner, data_type, .. } = expr
                && let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) =
                    inner.as_ref()
                && let Some(at) = number(name)
                && let Some(slot) = self.0.get_mut(at.saturating_sub(1))
            {
                *slot = crate::types::parameter_type(data_type).map(|(_, name)| name);
            }
            ControlFlow::Continue(())
        }
    }
    if count == 0 {
        return Vec::new();
    }
    let mut casts = Casts(vec![None; count]);
    let _ = walk::look(statement, &mut casts);
    casts.0
}

struct WrittenCasts<'a> {
    declared_types: &'a mut [Option<ColumnType>],
}

impl Change for WrittenCasts<'_> {
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: inner, data_type, .. } = expr
            && let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) =
                inner.as_ref()
            && let Some(at) = number(name)
            && let Some(slot @ None) = self.declared_types.get_mut(at.saturating_sub(1))
        {
            let own = || crate::types::parameter_type(data_type).map(|(found, _)| found);
            *slot = crate::types::column_type(data_type).ok().or_else(own);
        }
        ControlFlow::Continue(())
    }
}

struct CountCasts;

impl Change for CountCasts {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let fetched = query.fetch.iter_mut().filter_map(|fetch| fetch.quantity.as_mut());
        fetched.for_each(as_count);
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            let skipped = offset.iter_mut().map(|offset| &mut offset.value);
            limit.iter_mut().chain(skipped).for_each(as_count);
        }
        ControlFlow::Continue(())
    }

    // The planner requires a condition of type boolean.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let conditions = select.selection.iter_mut().chain(select.having.iter_mut());
        conditions.for_each(|condition| as_type(condition, SqlType::Boolean));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::IsTrue(condition)
            | Expr::IsNotTrue(condition)
            | Expr::IsFalse(condition)
            | Expr::IsNotFalse(condition)
            | Expr::IsUnknown(condition)
            | Expr::IsNotUnknown(condition)
            | Expr::UnaryOp { op: UnaryOperator::Not, expr: condition } => {
                as_type(condition, SqlType::Boolean);
            }
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                as_type(left, SqlType::Boolean);
                as_type(right, SqlType::Boolean);
            }
            Expr::CompoundFieldAccess { access_chain, .. } => {
                access_chain.iter_mut().for_each(as_ends);
            }
            Expr::Function(function) => as_instant(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Casts parameters at the start and at the end of a slice to integer.
fn as_ends(access: &mut AccessExpr) {
    if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access {
        let ends = lower_bound.iter_mut().chain(upper_bound.iter_mut());
        ends.for_each(|end| as_type(end, SqlType::Integer(None)));
    }
}

/// In `date_trunc(unit, time, zone)`, casts a parameter for the time to a timestamp with time zone.
fn as_instant(function: &mut Function) {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
    if name.as_deref() == Some("date_trunc")
        && let FunctionArguments::List(list) = &mut function.args
        && let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(time)), _] = list.args.as_mut_slice()
    {
        as_type(time, SqlType::Timestamp(None, TimezoneInfo::WithTimeZone));
    }
}

/// Casts a parameter that is a row count, also inside of parentheses, to bigint.
fn as_count(expr: &mut Expr) {
    as_type(expr, SqlType::BigInt(None));
}

/// Casts a parameter, also inside of parentheses, to a type.
fn as_type(expr: &mut Expr, data_type: SqlType) {
    if let Expr::Nested(inner) = expr {
        as_type(inner, data_type);
    } else if matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. })) {
        cast(expr, data_type);
    }
}

struct DeclaredCasts<'a> {
    declared_types: &'a [Option<ColumnType>],
}

impl Change for DeclaredCasts<'_> {
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        columns::name_items(select);
        ControlFlow::Continue(())
    }

    // Runs after the children of an expression, so that the walk does not visit the parameter
    // inside of the new cast again.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: inner, data_type, .. } = expr
            && let Expr::Cast { expr: parameter, data_type: parameter_type, .. } = inner.as_mut()
            && matches!(
                parameter.as_ref(),
                Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. })
            )
            && crate::types::column_type(data_type).ok()
                == crate::types::column_type(parameter_type).ok()
        {
            // The statement and the client name the same type: the plan keeps only the cast of the
            // statement.
            **inner = std::mem::replace(parameter, Expr::Value(Value::Null.into()));
        }
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr
            && let Some(at) = number(name)
            && let Some(Some(column_type)) = self.declared_types.get(at.saturating_sub(1))
        {
            cast(expr, sql_type(column_type));
        }
        ControlFlow::Continue(())
    }
}

fn cast(expr: &mut Expr, data_type: SqlType) {
    let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(inner),
        data_type,
        array: false,
        format: None,
    };
}

/// The SQL name of a column type, as a node of the parser's tree.
pub fn sql_type(column_type: &ColumnType) -> SqlType {
    match column_type {
        ColumnType::Boolean => SqlType::Boolean,
        ColumnType::SmallInt => SqlType::SmallInt(None),
        ColumnType::Integer => SqlType::Integer(None),
        ColumnType::BigInt => SqlType::BigInt(None),
        ColumnType::Real => SqlType::Real,
        ColumnType::Double => SqlType::DoublePrecision,
        ColumnType::Numeric { precision, scale } => SqlType::Numeric(
            ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)),
        ),
        ColumnType::Text => SqlType::Text,
        ColumnType::Bytea => SqlType::Bytea,
        ColumnType::Timestamp { precision } => {
            SqlType::Timestamp(Some(u64::from(*precision)), TimezoneInfo::None)
        }
        ColumnType::TimestampTz { precision } => {
            SqlType::Timestamp(Some(u64::from(*precision)), TimezoneInfo::WithTimeZone)
        }
        ColumnType::Date => SqlType::Date,
        ColumnType::Time => SqlType::Time(None, TimezoneInfo::None),
        ColumnType::Interval => SqlType::Interval { fields: None, precision: None },
        ColumnType::Uuid => SqlType::Uuid,
        ColumnType::Jsonb => SqlType::JSONB,
        ColumnType::Array(element) => {
            SqlType::Array(ArrayElemTypeDef::SquareBracket(Box::new(sql_type(element)), None))
        }
    }
}

/// The types of the parameters of a statement, in the order of the parameters.
#[derive(Debug, Default)]
pub struct Types {
    /// The types from the client or from the planner; `None` for a parameter without a known type.
    pub types: Vec<Option<ColumnType>>,
    /// The parameters, counted from 0, whose type is only a guess: the argument of a function that
    /// accepts several types gets the first accepted type.
    pub guesses: Vec<usize>,
}

/// Determines the types of the parameters of a plan.
///
/// # Errors
/// An error if two uses of a parameter need different types.
pub fn types(
    plan: &LogicalPlan,
    declared_types: &[Option<ColumnType>],
    count: usize,
) -> Result<Types> {
    let found = plan.get_parameter_fields().map_err(from_datafusion)?;
    let (arrays, beside) = match count {
        0 => (HashMap::new(), context_types::ParameterTypes::default()),
        _ => (arrays::compared(plan)?, context_types::found(plan)?),
    };
    let mut all = Types::default();
    for at in 0..count {
        let known = declared_types.get(at).cloned().flatten().or_else(|| {
            let name = format!("${}", at + 1);
            let field = found.get(&name).and_then(Option::as_ref);
            let planned = field
                .filter(|field| !field.data_type().is_null())
                .and_then(|field| ColumnType::from_arrow_field(field))
                .map(|planned| match planned {
                    ColumnType::BigInt if beside.is_integer(&name) => ColumnType::Integer,
                    planned => planned,
                })
                .or_else(|| arrays.get(&name).cloned());
            if planned.is_none() && beside.is_guess(&name) {
                all.guesses.push(at);
            }
            planned.or_else(|| beside.get(&name).cloned()).map(roomy)
        });
        all.types.push(known);
    }
    Ok(all)
}

/// Removes PostgreSQL's type names, for example `oid`, from the parameters of a plan. The planner
/// copies a type name from the column that a parameter is compared with, but two uses of a
/// parameter must have the same type. If the uses differ only in precision, the parameter gets a
/// type for all uses: `floor(n / $1) * $1`.
///
/// # Errors
/// An error of the planner.
pub fn without_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let shared = shared_types(&plan).map_err(from_datafusion)?;
    let plain = |expr: PlanExpr| match expr {
        PlanExpr::Placeholder(Placeholder { id, field: Some(field) }) => {
            let shared = shared.get(&id).filter(|shared| *shared != field.data_type());
            if shared.is_none() && !field.metadata().contains_key(PG_TYPE_METADATA) {
                return Ok(Transformed::no(PlanExpr::Placeholder(Placeholder {
                    id,
                    field: Some(field),
                })));
            }
            let mut metadata = field.metadata().clone();
            metadata.remove(PG_TYPE_METADATA);
            let mut field = field.as_ref().clone().with_metadata(metadata);
            if let Some(shared) = shared {
                field = field.with_data_type(shared.clone());
            }
            let field = Some(Arc::new(field));
            Ok(Transformed::yes(PlanExpr::Placeholder(Placeholder { id, field })))
        }
        other => Ok(Transformed::no(other)),
    };
    let plan =
        plan.change_with_subqueries(|node| node.map_expressions(|expr| expr.change_up(plain)));
    plan.map(|plan| plan.data).map_err(from_datafusion)
}

/// For each parameter whose uses have types that differ only in precision, scale or integer width:
/// a type that holds the values of all uses.
fn shared_types(plan: &LogicalPlan) -> datafusion::error::Result<HashMap<String, DataType>> {
    let mut places: HashMap<String, Vec<ColumnType>> = HashMap::new();
    plan.each_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.each(|inner| {
                if let PlanExpr::Placeholder(Placeholder { id, field: Some(field) }) = inner
                    && let Some(found) = ColumnType::from_arrow_field(field)
                {
                    let types = places.entry(id.clone()).or_default();
                    if !types.contains(&found) {
                        types.push(found);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let mut shared = HashMap::new();
    for (id, types) in places {
        let alike = types.windows(2).all(|pair| match pair {
            [one, other] => is_alike(one, other),
            _ => false,
        });
        if types.len() < 2 || !alike {
            continue;
        }
        let given: Vec<ValueType> =
            types.into_iter().map(|found| ValueType::Typed(found, true)).collect();
        if let Some(common) = common_type("parameter", &given)? {
            shared.insert(id, roomy(common).arrow_type());
        }
    }
    Ok(shared)
}

/// True if two types differ only in precision, scale or integer width.
fn is_alike(one: &ColumnType, other: &ColumnType) -> bool {
    use ColumnType as T;
    let is_whole = |known: &T| matches!(known, T::SmallInt | T::Integer | T::BigInt);
    matches!(
        (one, other),
        (T::Numeric { .. }, T::Numeric { .. })
            | (T::Timestamp { .. }, T::Timestamp { .. })
            | (T::TimestampTz { .. }, T::TimestampTz { .. })
    ) || is_whole(one) && is_whole(other)
}

/// Replaces each unknown parameter type with text.
pub fn or_text(types: Vec<Option<ColumnType>>) -> Vec<ColumnType> {
    types.into_iter().map(|found| found.unwrap_or(ColumnType::Text)).collect()
}

/// Removes the precision limit from the type of a parameter: `n = $1` must not find 3.14 for
/// 3.14159, and `t > $1` must not treat 10:00:00.1239 as 10:00:00.124.
fn roomy(found: ColumnType) -> ColumnType {
    match found {
        ColumnType::Numeric { scale, .. } if scale > ColumnType::NUMERIC_SCALE => {
            ColumnType::Numeric { precision: 38, scale }
        }
        ColumnType::Numeric { .. } => ColumnType::NUMERIC,
        ColumnType::Timestamp { precision } => {
            ColumnType::Timestamp { precision: precision.max(TIME_DIGITS) }
        }
        ColumnType::TimestampTz { precision } => {
            ColumnType::TimestampTz { precision: precision.max(TIME_DIGITS) }
        }
        ColumnType::Array(element) => ColumnType::Array(Box::new(roomy(*element))),
        other => other,
    }
}

/// Decimal digits of the seconds in PostgreSQL's times.
const TIME_DIGITS: u8 = 6;

/// True if a value's type equals the wanted type except for precision and scale.
fn is_precise(value: &DataType, wanted: &DataType) -> bool {
    match (value, wanted) {
        (DataType::Decimal128(..), DataType::Decimal128(..)) => true,
        (DataType::Timestamp(_, value), DataType::Timestamp(_, wanted)) => value == wanted,
        (DataType::List(value), DataType::List(wanted)) => {
            is_precise(value.data_type(), wanted.data_type())
        }
        _ => false,
    }
}

/// The values of the parameters of a statement, each cast to its type. If the statement only reads
/// (`reads`), numerics with more digits, and times that nanoseconds cannot hold, stay without a
/// cast.
///
/// # Errors
/// `ProtocolViolation` for a wrong number of values, `DatatypeMismatch` for a wrong type,
/// `NumericOutOfRange` and `DatetimeOverflow` for a value out of range of the type.
pub fn bind(
    types: &[ColumnType],
    values: Vec<ScalarValue>,
    reads: bool,
) -> Result<Vec<ScalarValue>> {
    if values.len() != types.len() {
        return Err(Error::new(
            ErrorKind::ProtocolViolation,
            format!(
                "the statement requires {} parameters, {} were supplied",
                types.len(),
                values.len()
            ),
        ));
    }
    values
        .into_iter()
        .zip(types)
        .enumerate()
        .map(|(at, (value, column_type))| {
            let wanted = column_type.arrow_type();
            let given = value.data_type();
            let precise = is_precise(&given, &wanted);
            if given == wanted || reads && precise {
                return Ok(value);
            }
            value.cast_to(&wanted).map_err(|_| {
                if precise {
                    return match column_type {
                        ColumnType::Numeric { .. } => {
                            Error::new(ErrorKind::NumericOutOfRange, "numeric field overflow")
                        }
                        _ => Error::new(
                            ErrorKind::DatetimeOverflow,
                            format!("parameter ${} is out of range for {column_type}", at + 1),
                        ),
                    };
                }
                Error::new(
                    ErrorKind::DatatypeMismatch,
                    format!(
                        "parameter ${} has type {} and is given {}",
                        at + 1,
                        column_type,
                        value.data_type()
                    ),
                )
            })
        })
        .collect()
}

/// The plan with a NULL of the given type in place of each parameter.
///
/// # Errors
/// An error if a type is not valid in the place of its parameter.
pub fn typed(plan: LogicalPlan, types: &[ColumnType]) -> Result<LogicalPlan> {
    let nulls = types
        .iter()
        .map(|column_type| ScalarValue::try_new_null(&column_type.arrow_type()))
        .collect::<datafusion::error::Result<Vec<_>>>()
        .map_err(from_datafusion)?;
    plan.with_param_values(for_plan(types, &nulls)).map_err(from_datafusion)
}

/// The values in the form that DataFusion needs to insert them into a plan.
pub fn for_plan(types: &[ColumnType], values: &[ScalarValue]) -> ParamValues {
    let with_types = values.iter().zip(types).map(|(value, column_type)| {
        let field = column_type.arrow_field("", true);
        let metadata =
            (!field.metadata().is_empty()).then(|| FieldMetadata::new_from_field(&field));
        ScalarAndMetadata::new(value.clone(), metadata)
    });
    ParamValues::List(with_types.collect())
}

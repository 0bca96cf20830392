//! Converts conditions on columns to ranges of values, so that a scan can skip blocks and row
//! groups by their statistics (F87). The plan still applies the condition above the scan.

use arrow::{array::Array, compute::cast, datatypes::DataType};
use datafusion::{
    logical_expr::{Between, BinaryExpr, Expr, Operator, expr::InList},
    scalar::ScalarValue,
};
use stratalog_model::{
    ChronicleDefinition, ColumnType, ValueFilter,
    chronicle::SYSTEM_COLUMNS,
    values::{OrderedValue, ValuePredicate},
};

/// The condition on the values of one column that holds for every row where `filter` is true;
/// `None` without such a condition.
pub fn single(definition: &ChronicleDefinition, filter: &Expr) -> Option<ValueFilter> {
    let truth = |inner: &Expr, value: bool| {
        let operand = ColumnOperand::of(definition, inner)?;
        let value = OrderedValue::Whole(value.into());
        let boolean = operand.of == DataType::Boolean;
        boolean.then(|| operand.wants(ValuePredicate::Between(Some(value.clone()), Some(value))))
    };
    match filter {
        Expr::Alias(alias) => single(definition, &alias.expr),
        Expr::Column(_) => truth(filter, true),
        Expr::IsTrue(inner) => truth(inner, true).or_else(|| single(definition, inner)),
        Expr::Not(inner) | Expr::IsFalse(inner) => truth(inner, false),
        Expr::IsNull(inner) => {
            Some(ColumnOperand::of(definition, inner)?.wants(ValuePredicate::Null))
        }
        Expr::IsNotNull(inner) => Some(ColumnOperand::of(definition, inner)?.wants(ANY)),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (one, other) = (single(definition, left)?, single(definition, right)?);
            let same = one.column == other.column;
            let predicate = one.predicate.or(other.predicate).filter(|_| same)?;
            Some(ValueFilter { column: one.column, predicate })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            match ColumnOperand::of(definition, left) {
                Some(operand) => operand.compared(*op, right),
                None => ColumnOperand::of(definition, right)?.compared(op.swap()?, left),
            }
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let operand = ColumnOperand::of(definition, expr)?;
            let (low, high) = (operand.rank(low)?, operand.rank(high)?);
            Some(
                operand
                    .wants(ValuePredicate::Between(low.map(|low| low.0), high.map(|high| high.1))),
            )
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let operand = ColumnOperand::of(definition, expr)?;
            let mut hull: Option<ValuePredicate> = None;
            for value in list {
                // No value equals NULL.
                let Some((low, high)) = operand.rank(value)? else { continue };
                let value = ValuePredicate::Between(Some(low), Some(high));
                hull = Some(match hull {
                    Some(hull) => hull.or(value)?,
                    None => value,
                });
            }
            Some(operand.wants(hull?))
        }
        _ => None,
    }
}

/// The system column with the arrival number of an event. Statistics and indexes cover this column
/// like other columns.
const ARRIVAL: &str = "_seq";

/// Matches all values except NULL.
const ANY: ValuePredicate = ValuePredicate::Between(None, None);

/// A column as an operand of a comparison.
struct ColumnOperand {
    /// The position of the column: system columns come after the user's columns.
    column: usize,
    /// The column's own type.
    of: DataType,
    /// The type of the comparison. The conversion to this type never reverses an order.
    compared_as: DataType,
}

impl ColumnOperand {
    fn of(definition: &ChronicleDefinition, expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Alias(alias) => Self::of(definition, &alias.expr),
            Expr::Column(column) if column.name == ARRIVAL => {
                let system = SYSTEM_COLUMNS.iter().position(|name| *name == ARRIVAL)?;
                let (column, of) = (definition.columns.len() + system, DataType::Int64);
                Some(Self { column, compared_as: of.clone(), of })
            }
            Expr::Column(column) => {
                let named = |known: &stratalog_model::ColumnDefinition| known.name == column.name;
                let column = definition.columns.iter().position(named)?;
                let column_type = &definition.columns.get(column)?.column_type;
                // Values of these types have no order, or are stored in a form with a different
                // order.
                let ranked = !matches!(
                    column_type,
                    ColumnType::Jsonb | ColumnType::Interval | ColumnType::Array(_)
                );
                let of = column_type.arrow_type();
                ranked.then(|| Self { column, compared_as: of.clone(), of })
            }
            Expr::Cast(cast) => {
                let operand = Self::of(definition, &cast.expr)?;
                let to = cast.field.data_type();
                let keeps_order = match (&operand.compared_as, to) {
                    (from, to) if is_integer(from) => {
                        matches!(to, DataType::Float64 | DataType::Decimal128(..))
                            || (is_integer(to) && from.primitive_width() <= to.primitive_width())
                    }
                    (DataType::Float32, to) => *to == DataType::Float64,
                    (from, to) => is_text(from) && is_text(to),
                };
                keeps_order.then(|| Self { compared_as: to.clone(), ..operand })
            }
            _ => None,
        }
    }

    fn wants(&self, predicate: ValuePredicate) -> ValueFilter {
        ValueFilter { column: self.column, predicate }
    }

    fn compared(&self, op: Operator, value: &Expr) -> Option<ValueFilter> {
        let ranked = self.rank(value)??;
        let (low, high) = (Some(ranked.0), Some(ranked.1));
        Some(self.wants(match op {
            Operator::Eq => ValuePredicate::Between(low, high),
            Operator::Gt | Operator::GtEq => ValuePredicate::Between(low, None),
            Operator::Lt | Operator::LtEq => ValuePredicate::Between(None, high),
            Operator::NotEq => ANY,
            _ => return None,
        }))
    }

    /// The smallest range of stored column values that contains all values equal to a constant; an
    /// inner `None` for NULL. The outer `None` means that the expression is not a constant, or
    /// cannot be ordered among the column's values.
    fn rank(&self, value: &Expr) -> Option<Option<(OrderedValue, OrderedValue)>> {
        let Expr::Literal(value, _) = value else { return None };
        if value.is_null() {
            return Some(None);
        }
        let value = match (value, &self.compared_as) {
            (value, to) if is_text(to) => {
                let text = value.try_as_str().flatten()?;
                ScalarValue::Utf8View(Some(text.to_string()))
            }
            (value, to) if value.data_type() == *to => value.clone(),
            _ => return None,
        };
        if let (DataType::Decimal128(_, scale), true) = (&self.compared_as, is_integer(&self.of)) {
            let ScalarValue::Decimal128(Some(value), ..) = value else { return None };
            let unit = 10_i128.checked_pow(u32::try_from(*scale).ok()?)?;
            let low = value.div_euclid(unit);
            let high = low + i128::from(value.rem_euclid(unit) > 0);
            return Some(Some((OrderedValue::Whole(low), OrderedValue::Whole(high))));
        }
        let array = value.to_array().ok()?;
        let array = match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => cast(&array, &DataType::Utf8View).ok()?,
            _ => array,
        };
        match ValuePredicate::among(&array)? {
            ValuePredicate::Between(Some(low), Some(high)) => Some(Some((low, high))),
            _ => None,
        }
    }
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

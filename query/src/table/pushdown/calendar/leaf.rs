//! Finds the inputs (leaves) of a predicate that depends only on the tick column.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, Operator, Volatility,
    expr::{InList, ScalarFunction},
};
use stratalog_functions::{CalendarUnit, literal::compares, steady_unit};
use stratalog_model::{ChronicleDefinition, TickRanges};
use stratalog_postgres::rules::calendar::date_trunc;
use stratalog_text::TimeZone;

use super::super::{
    ticks,
    time::{Axis, axis, time_unit_ns, timestamp},
};

/// An input of a predicate: a subexpression whose value is constant over ranges of ticks. The value
/// is constant:
#[derive(Debug, Clone, PartialEq)]
pub enum Leaf {
    /// inside these ranges, and also outside of them (a comparison).
    Ticks(TickRanges),
    /// within each calendar unit in a time zone.
    Unit {
        /// The time zone of the local time.
        zone: TimeZone,
        /// The unit.
        unit: CalendarUnit,
    },
    /// between constant instants of local time in a time zone.
    Clock {
        /// The time zone of the local time.
        zone: TimeZone,
        /// The local times of the instants, in nanoseconds since 1970.
        at: Vec<i128>,
    },
}

impl Leaf {
    /// True for an input that depends on the calendar, false for a plain comparison with constants.
    pub fn is_calendar(&self) -> bool {
        !matches!(self, Self::Ticks(_))
    }
}

/// All inputs of `predicate`; `None` if the predicate depends on more than the calendar of the tick
/// column. The predicate is constant wherever all inputs are constant.
pub fn leaves(definition: &ChronicleDefinition, predicate: &Expr) -> Option<Vec<Leaf>> {
    let tick = definition.tick()?;
    if predicate.column_refs().iter().any(|column| column.name != tick.name) {
        return None;
    }
    let mut leaves = Vec::new();
    LeafReader { definition, leaves: &mut leaves }.read(predicate)?;
    leaves.iter().any(Leaf::is_calendar).then_some(leaves)
}

struct LeafReader<'a> {
    definition: &'a ChronicleDefinition,
    leaves: &'a mut Vec<Leaf>,
}

impl LeafReader<'_> {
    /// Collects the leaves of an expression; `None` if the expression has another input.
    fn read(&mut self, expr: &Expr) -> Option<()> {
        if let Some(leaf) = self.leaf(expr) {
            self.leaves.push(leaf);
            return Some(());
        }
        match expr {
            Expr::Literal(_, _) => Some(()),
            Expr::Alias(alias) => self.read(&alias.expr),
            Expr::BinaryExpr(BinaryExpr { left, op: _, right }) => self.all([&**left, &**right]),
            Expr::Not(inner)
            | Expr::Negative(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner) => self.read(inner),
            Expr::Between(between) => self.all([&*between.expr, &*between.low, &*between.high]),
            Expr::InList(InList { expr, list, negated: _ }) => {
                self.all(std::iter::once(&**expr).chain(list))
            }
            Expr::Cast(cast) => self.read(&cast.expr),
            Expr::TryCast(cast) => self.read(&cast.expr),
            Expr::Case(Case { expr, when_then_expr, else_expr }) => {
                let branches = when_then_expr.iter().flat_map(|(when, then)| [&**when, &**then]);
                self.all(branches.chain(expr.as_deref()).chain(else_expr.as_deref()))
            }
            Expr::ScalarFunction(call)
                if call.func.signature().volatility == Volatility::Immutable =>
            {
                self.all(&call.args)
            }
            _ => None,
        }
    }

    fn all<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Option<()> {
        exprs.into_iter().try_for_each(|expr| self.read(expr))
    }

    fn leaf(&self, expr: &Expr) -> Option<Leaf> {
        if !matches!(expr, Expr::Literal(_, _))
            && let Some(ranges) = ticks(self.definition, expr)
        {
            return Some(Leaf::Ticks(ranges));
        }
        match expr {
            Expr::ScalarFunction(call) => self.part(call),
            Expr::Cast(cast) if *cast.field.data_type() == DataType::Date32 => {
                let clock = self.clock(&cast.expr)?;
                Some(Leaf::Unit { zone: clock.zone, unit: CalendarUnit::Day })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
                self.cut_off(left, right)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
                let (clock, constant) = match self.clock(left) {
                    Some(clock) => (clock, right),
                    None => (self.clock(right)?, left),
                };
                clock.compared([&**constant])
            }
            Expr::Between(Between { expr, negated: _, low, high }) => {
                self.clock(expr)?.compared([&**low, &**high])
            }
            Expr::InList(InList { expr, list, negated: _ }) => self.clock(expr)?.compared(list),
            _ => None,
        }
    }

    /// Recognizes `extract(part FROM time)` and `date_trunc(unit, time)`.
    fn part(&self, call: &ScalarFunction) -> Option<Leaf> {
        let [Expr::Literal(name, _), time] = call.args.as_slice() else { return None };
        let name = name.try_as_str()??;
        let unit = match call.name() {
            "extract" | "date_part" => steady_unit(name)?,
            "date_trunc" => date_trunc::calendar_unit(name)?,
            _ => return None,
        };
        Some(Leaf::Unit { zone: self.clock(time)?.zone, unit })
    }

    /// Recognizes `time − (local − date_trunc(unit, local))`, the truncation of instants to hours
    /// and finer units.
    fn cut_off(&self, time: &Expr, rest: &Expr) -> Option<Leaf> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) = rest else {
            return None;
        };
        let Some(Axis::Time { zoned: true, .. }) = axis(self.definition, time) else {
            return None;
        };
        let local = self.clock(left)?;
        let cut = match &**right {
            Expr::ScalarFunction(call) if call.name() == "date_trunc" => self.part(call)?,
            _ => return None,
        };
        matches!(&cut, Leaf::Unit { zone, .. } if *zone == local.zone).then_some(cut)
    }

    /// The time zone of `expr`, if `expr` is the tick column in local time.
    fn clock(&self, expr: &Expr) -> Option<Clock> {
        if let Some(Axis::Time { unit_ns, .. }) = axis(self.definition, expr) {
            return Some(Clock { zone: TimeZone::UTC, unit_ns });
        }
        match expr {
            Expr::Alias(alias) => self.clock(&alias.expr),
            Expr::ScalarFunction(call) if call.name() == "timezone" => {
                let [Expr::Literal(name, _), time] = call.args.as_slice() else { return None };
                let Some(Axis::Time { unit_ns, zoned: true, .. }) = axis(self.definition, time)
                else {
                    return None;
                };
                let zone = TimeZone::parse_setting(name.try_as_str()??).ok()?;
                Some(Clock { zone, unit_ns })
            }
            Expr::Cast(cast) => {
                let DataType::Timestamp(unit, None) = cast.field.data_type() else { return None };
                let clock = self.clock(&cast.expr)?;
                (time_unit_ns(*unit) <= clock.unit_ns).then_some(clock)
            }
            _ => None,
        }
    }
}

/// The tick column in the local time of a zone.
struct Clock {
    zone: TimeZone,
    unit_ns: i128,
}

impl Clock {
    /// The input for a comparison of the local time with constants.
    fn compared<'e>(self, constants: impl IntoIterator<Item = &'e Expr>) -> Option<Leaf> {
        let mut at = Vec::new();
        for constant in constants {
            let Expr::Literal(value, _) = constant else { return None };
            if value.is_null() {
                continue;
            }
            let (count, unit, _) = timestamp(value)?;
            let ns = i128::from(count) * time_unit_ns(unit);
            // The comparison becomes true at the constant or directly after the constant.
            at.extend([ns, ns + 1]);
        }
        Some(Leaf::Clock { zone: self.zone, at })
    }
}

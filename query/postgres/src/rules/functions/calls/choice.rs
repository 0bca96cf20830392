//! Chooses between functions with the same name, by the rules in section 10.3 of PostgreSQL's
//! manual.

use stratalog_functions::literal::numeric_type;
use stratalog_model::ColumnType;

use super::signatures::{Overload, Parameter};
use crate::rules::types::common_types::{ValueType, common_type};

/// The function chosen for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverloadChoice {
    /// The type to which each argument is cast; `None` leaves the argument unchanged.
    pub wanted: Vec<Option<ColumnType>>,
    /// The result type of the call; `None` means the result type of the called function.
    pub gives: Option<ColumnType>,
    /// The function to call instead of the named function, if any.
    pub calls: Option<&'static str>,
}

/// PostgreSQL's type categories. Each category except `Other` has a preferred type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Category {
    Number,
    Text,
    Time,
    Span,
    Boolean,
    Other,
}

fn category(parameter: &Parameter) -> Category {
    use ColumnType as T;
    match parameter {
        Parameter::Type(T::SmallInt | T::Integer | T::BigInt | T::Numeric { .. })
        | Parameter::Type(T::Real | T::Double) => Category::Number,
        Parameter::Type(T::Text) => Category::Text,
        Parameter::Type(T::Date | T::Timestamp { .. } | T::TimestampTz { .. }) => Category::Time,
        Parameter::Type(T::Interval | T::Time) => Category::Span,
        Parameter::Type(T::Boolean) => Category::Boolean,
        _ => Category::Other,
    }
}

fn is_preferred(parameter: &Parameter) -> bool {
    use ColumnType as T;
    matches!(
        parameter,
        Parameter::Type(T::Double | T::Text | T::TimestampTz { .. } | T::Interval | T::Boolean)
    )
}

/// How well a value fits a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Exact,
    Cast,
    /// The value has no type, and can take the type of the parameter.
    Open,
}

fn same_type(given: &ColumnType, taken: &ColumnType) -> bool {
    use ColumnType as T;
    match (given, taken) {
        (T::Numeric { .. }, T::Numeric { .. })
        | (T::Timestamp { .. }, T::Timestamp { .. })
        | (T::TimestampTz { .. }, T::TimestampTz { .. }) => true,
        (T::Array(given), T::Array(taken)) => same_type(given, taken),
        _ => given == taken,
    }
}

/// Whether PostgreSQL converts values of one type to the other type implicitly.
fn casts(given: &ColumnType, taken: &ColumnType) -> bool {
    use ColumnType as T;
    let rank = |of: &ColumnType| match of {
        T::SmallInt => Some(0),
        T::Integer => Some(1),
        T::BigInt => Some(2),
        T::Numeric { .. } => Some(3),
        T::Real => Some(4),
        T::Double => Some(5),
        _ => None,
    };
    match (rank(given), rank(taken)) {
        (Some(given), Some(taken)) => given < taken,
        (None, None) => matches!(
            (given, taken),
            (T::Date, T::Timestamp { .. } | T::TimestampTz { .. })
                | (T::Timestamp { .. }, T::TimestampTz { .. })
                | (T::Time, T::Interval)
        ),
        _ => false,
    }
}

fn fit(given: &ValueType, parameter: &Parameter) -> Option<Fit> {
    match (given, parameter) {
        (ValueType::Text(_) | ValueType::Null, _) => Some(Fit::Open),
        (_, Parameter::Any) => Some(Fit::Cast),
        (ValueType::Typed(ColumnType::Array(_), _), Parameter::Array) => Some(Fit::Cast),
        (ValueType::Typed(_, _), Parameter::Element) => Some(Fit::Cast),
        (ValueType::Typed(given, _), Parameter::Type(taken)) => match same_type(given, taken) {
            true => Some(Fit::Exact),
            false => casts(given, taken).then_some(Fit::Cast),
        },
        _ => None,
    }
}

impl Overload {
    fn parameter(&self, at: usize) -> &Parameter {
        self.takes.get(at).or(self.takes.last()).unwrap_or(&Parameter::Any)
    }

    fn takes_number(&self, count: usize) -> bool {
        count == self.takes.len() || self.variadic && count >= self.takes.len()
    }
}

/// Chooses the overload for arguments of the given types; `None` if no overload fits, or if several
/// overloads fit equally well.
pub fn choose(overloads: &[Overload], given: &[ValueType]) -> Option<OverloadChoice> {
    if given.contains(&ValueType::Other) {
        return None;
    }
    let mut left: Vec<&Overload> = overloads
        .iter()
        .filter(|overload| overload.takes_number(given.len()))
        .filter(|overload| {
            given.iter().enumerate().all(|(at, given)| fit(given, overload.parameter(at)).is_some())
        })
        .collect();
    keep_best(&mut left, given, |fit, _| fit == Fit::Exact);
    keep_best(&mut left, given, |fit, parameter| {
        fit == Fit::Exact || fit == Fit::Cast && is_preferred(parameter)
    });
    if left.len() > 1 {
        for at in 0..given.len() {
            if matches!(given.get(at), Some(ValueType::Text(_) | ValueType::Null)) {
                keep_category(&mut left, at)?;
            }
        }
    }
    if left.len() > 1 {
        keep_like_the_known(&mut left, given);
    }
    match left.as_slice() {
        [one] => overload_choice(one, given),
        _ => None,
    }
}

/// Keeps the overloads that have the highest number of arguments for which `is_good` is true.
fn keep_best(
    left: &mut Vec<&Overload>,
    given: &[ValueType],
    is_good: impl Fn(Fit, &Parameter) -> bool,
) {
    let score = |overload: &Overload| {
        let good = given.iter().enumerate().filter(|(at, given)| {
            let parameter = overload.parameter(*at);
            fit(given, parameter).is_some_and(|fit| is_good(fit, parameter))
        });
        good.count()
    };
    let most = left.iter().map(|overload| score(overload)).max().unwrap_or(0);
    left.retain(|overload| score(overload) == most);
}

/// Keeps the overloads with the best parameter at the position `at`, whose argument has no type. If
/// an overload takes text there, keeps the overloads that take text. Otherwise all overloads must
/// share a category. Within the category, overloads that take the preferred type win.
fn keep_category(left: &mut Vec<&Overload>, at: usize) -> Option<()> {
    let categories: Vec<Category> =
        left.iter().map(|overload| category(overload.parameter(at))).collect();
    let first = *categories.first()?;
    let wanted = match categories.contains(&Category::Text) {
        true => Category::Text,
        false if categories.iter().all(|category| *category == first) => first,
        false => return Some(()),
    };
    left.retain(|overload| category(overload.parameter(at)) == wanted);
    if left.iter().any(|overload| is_preferred(overload.parameter(at))) {
        left.retain(|overload| is_preferred(overload.parameter(at)));
    }
    Some(())
}

/// Assumes that the arguments without a type have the type that all other arguments share. If
/// exactly one overload accepts this type in every position, keeps only this overload.
fn keep_like_the_known(left: &mut Vec<&Overload>, given: &[ValueType]) {
    let mut known = given.iter().filter_map(|given| match given {
        ValueType::Typed(known, _) => Some(known),
        _ => None,
    });
    let Some(first) = known.next().cloned() else { return };
    if !known.all(|other| same_type(other, &first)) {
        return;
    }
    let assumed = ValueType::Typed(first, true);
    let fits = |overload: &&Overload| {
        (0..given.len()).all(|at| fit(&assumed, overload.parameter(at)).is_some())
    };
    if left.iter().filter(|overload| fits(overload)).count() == 1 {
        left.retain(fits);
    }
}

/// The result for the last remaining overload.
fn overload_choice(overload: &Overload, given: &[ValueType]) -> Option<OverloadChoice> {
    let element = element(overload, given)?;
    let wanted = given.iter().enumerate().map(|(at, given)| {
        match (overload.parameter(at), given) {
            (Parameter::Any, _) => None,
            (Parameter::Type(ColumnType::Numeric { .. }), given) => numeric(given),
            (Parameter::Type(ColumnType::Text), ValueType::Text(_)) => None,
            (Parameter::Type(taken), ValueType::Typed(given, _)) if same_type(given, taken) => {
                // The planner stores an integer constant as a bigint: cast the constant to integer.
                matches!(given, ColumnType::Integer).then(|| taken.clone())
            }
            (Parameter::Type(taken), _) => Some(taken.clone()),
            (Parameter::Element, ValueType::Text(_)) if element == Some(ColumnType::Text) => None,
            (Parameter::Array, ValueType::Typed(ColumnType::Array(given), _))
                if element.as_ref().is_none_or(|element| same_type(given, element)) =>
            {
                None
            }
            (Parameter::Element, _) => element.clone(),
            (Parameter::Array, _) => {
                element.clone().map(|element| ColumnType::Array(Box::new(element)))
            }
        }
    });
    Some(OverloadChoice {
        wanted: wanted.collect(),
        gives: overload.gives.clone(),
        calls: overload.calls,
    })
}

/// A numeric type that keeps all digits of the value.
fn numeric(given: &ValueType) -> Option<ColumnType> {
    let whole = |precision| Some(ColumnType::Numeric { precision, scale: 0 });
    match given {
        ValueType::Typed(ColumnType::SmallInt, _) => whole(5),
        ValueType::Typed(ColumnType::Integer, _) => whole(10),
        ValueType::Typed(ColumnType::BigInt, _) => whole(19),
        ValueType::Text(text) => Some(numeric_type(text).unwrap_or(ColumnType::NUMERIC)),
        ValueType::Null => Some(ColumnType::NUMERIC),
        _ => None,
    }
}

/// The common element type of the parameters `Array` and `Element`. `Some(None)` if the overload
/// has no such parameters, or if all elements keep their types; `None` if the elements have no
/// common type.
#[expect(clippy::option_option, reason = "none is not the same as no common type")]
fn element(overload: &Overload, given: &[ValueType]) -> Option<Option<ColumnType>> {
    let mut elements = Vec::new();
    for (at, given) in given.iter().enumerate() {
        match (overload.parameter(at), given) {
            (Parameter::Array, ValueType::Typed(ColumnType::Array(element), exact)) => {
                elements.push(ValueType::Typed(element.as_ref().clone(), *exact));
            }
            (Parameter::Element, given) => elements.push(given.clone()),
            _ => {}
        }
    }
    let first = elements.iter().find_map(|element| match element {
        ValueType::Typed(column_type, _) => Some(column_type.clone()),
        _ => None,
    });
    match common_type("array", &elements) {
        Ok(Some(common)) => Some(Some(common)),
        Ok(None) => Some(first.filter(|first| *first == ColumnType::Text)),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests;

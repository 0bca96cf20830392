//! Converts conditions on columns with secondary indexes to index filters (F88). The plan still
//! applies the condition above the scan.

use arrow::datatypes::DataType;
use datafusion::{
    logical_expr::{BinaryExpr, Expr, Like, Operator, expr::InList},
    scalar::ScalarValue,
};
use stratalog_model::{
    ChronicleDefinition, IndexKind, ValueFilter, index::WordPart, values::ValuePredicate,
};

use super::array_of;

/// The index filter that holds for every row where `filter`, one conjunct, is true; `None` without
/// a usable index.
pub fn single(definition: &ChronicleDefinition, filter: &Expr) -> Option<ValueFilter> {
    if definition.indexes.is_empty() {
        return None;
    }
    match filter {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Eq | Operator::Or, .. })
        | Expr::InList(InList { negated: false, .. }) => {
            let mut values = Vec::new();
            let column = alternatives(definition, filter, &mut values)?;
            column.among(&values)
        }
        Expr::Like(Like { negated: false, expr, pattern, escape_char, case_insensitive }) => {
            has_words(definition, (expr, pattern), *escape_char, *case_insensitive)
        }
        Expr::ScalarFunction(call) => {
            let any_case = match call.name() {
                stratalog_functions::LIKE_MATCH => false,
                stratalog_functions::ILIKE_MATCH => true,
                _ => return None,
            };
            let [expr, pattern] = call.args.as_slice() else { return None };
            has_words(definition, (expr, pattern), None, any_case)
        }
        _ => None,
    }
}

/// The index filter for the words that every text matching a LIKE pattern contains.
fn has_words(
    definition: &ChronicleDefinition,
    (expr, pattern): (&Expr, &Expr),
    escape: Option<char>,
    any_case: bool,
) -> Option<ValueFilter> {
    let column = indexed(definition, expr)?;
    let Expr::Literal(pattern, _) = pattern else { return None };
    let pattern = pattern.try_as_str()??;
    let mut words = words_of(pattern, escape);
    if any_case {
        words.retain(WordPart::is_ascii);
    }
    let has = column.has(IndexKind::Inverted) && !words.is_empty();
    has.then(|| column.wants(ValuePredicate::Words(words)))
}

/// The indexed column that a condition compares with several values (OR, IN). Adds the values to
/// `values`.
fn alternatives<'a>(
    definition: &'a ChronicleDefinition,
    filter: &Expr,
    values: &mut Vec<Expr>,
) -> Option<IndexedColumn<'a>> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let one = alternatives(definition, left, values)?;
            let other = alternatives(definition, right, values)?;
            (one.at == other.at).then_some(one)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let (column, value) = match indexed(definition, left) {
                Some(column) => (column, right),
                None => (indexed(definition, right)?, left),
            };
            values.push(value.as_ref().clone());
            Some(column)
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            values.extend(list.iter().cloned());
            indexed(definition, expr)
        }
        _ => None,
    }
}

/// A column with an index.
struct IndexedColumn<'a> {
    definition: &'a ChronicleDefinition,
    at: usize,
    of: DataType,
}

fn indexed<'a>(definition: &'a ChronicleDefinition, expr: &Expr) -> Option<IndexedColumn<'a>> {
    match expr {
        Expr::Alias(alias) => indexed(definition, &alias.expr),
        Expr::Column(column) => {
            let at = definition.columns.iter().position(|known| known.name == column.name)?;
            let known = definition.columns.get(at)?;
            let indexed = definition.indexes.iter().any(|index| index.columns.contains(&known.id));
            indexed.then(|| IndexedColumn { definition, at, of: known.column_type.arrow_type() })
        }
        // Accept casts between Arrow's text types, and casts of integers to a wider type.
        Expr::Cast(cast) => {
            let column = indexed(definition, &cast.expr)?;
            let to = cast.field.data_type();
            let text = |of: &DataType| {
                matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            };
            let wider = column.of.is_signed_integer()
                && to.is_signed_integer()
                && column.of.primitive_width() <= to.primitive_width();
            (wider || text(&column.of) && text(to)).then_some(column)
        }
        _ => None,
    }
}

impl IndexedColumn<'_> {
    fn has(&self, kind: IndexKind) -> bool {
        let id = self.definition.columns.get(self.at).map(|column| column.id);
        let of_kind = |index: &stratalog_model::IndexDefinition| {
            index.kind == kind && id.is_some_and(|id| index.columns.contains(&id))
        };
        self.definition.indexes.iter().any(of_kind)
    }

    fn wants(&self, predicate: ValuePredicate) -> ValueFilter {
        ValueFilter { column: self.at, predicate }
    }

    /// A filter for rows equal to any of the constants. A constant outside of the column's type
    /// equals no value.
    fn among(&self, values: &[Expr]) -> Option<ValueFilter> {
        let mut among = Vec::with_capacity(values.len());
        for value in values {
            let Expr::Literal(value, _) = value else { return None };
            if value.is_null() {
                continue;
            }
            let value = match (self.of.is_integer(), value.data_type().is_integer()) {
                (true, true) => match value.cast_to(&self.of) {
                    Ok(value) if !value.is_null() => value,
                    _ => continue,
                },
                (true, false) => return None,
                (false, _) => same_type(value, &self.of)?,
            };
            among.push(value);
        }
        if among.is_empty() {
            return None;
        }
        array_of(among).map(|values| self.wants(ValuePredicate::Among(values)))
    }
}

/// Converts the constant to the column's type if both types are forms of the same type; otherwise
/// `None`.
fn same_type(value: &ScalarValue, of: &DataType) -> Option<ScalarValue> {
    if value.data_type() == *of {
        return Some(value.clone());
    }
    let text = value.try_as_str()??;
    (*of == DataType::Utf8View).then(|| ScalarValue::Utf8View(Some(text.to_string())))
}

/// The words and parts of words that every text matching a LIKE pattern contains.
fn words_of(pattern: &str, escape: Option<char>) -> Vec<WordPart> {
    let escape = escape.unwrap_or('\\');
    let mut words = Vec::new();
    let (mut part, mut begins) = (String::new(), true);
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' | '_' => {
                words.extend(WordPart::all_of(&part, begins, false));
                part.clear();
                begins = false;
            }
            // The escaped character may continue the word before it, or begin a new word: the
            // filter requires both parts separately.
            letter if letter == escape => {
                words.extend(WordPart::all_of(&part, begins, false));
                part.clear();
                begins = false;
                part.extend(letters.next());
            }
            letter => part.push(letter),
        }
    }
    words.extend(WordPart::all_of(&part, begins, true));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_ask_for_their_words() {
        let whole = |pattern: &str| -> Vec<Option<String>> {
            let words = words_of(pattern, None);
            words.iter().map(|word| word.whole().map(str::to_string)).collect()
        };
        assert_eq!(whole("disk full"), [Some("disk".to_string()), Some("full".to_string())]);
        assert_eq!(whole("%disk full%"), [None, None]);
        assert_eq!(whole("% disk full %"), [Some("disk".to_string()), Some("full".to_string())]);
        assert_eq!(whole("disk%"), [None]);
        assert_eq!(whole("a\\%b"), [None, Some("b".to_string())]);
        assert_eq!(whole("x a\\bc"), [Some("x".to_string()), None, None]);
        assert!(words_of("%__%", None).is_empty());
    }
}

//! Computes the rows of the system tables about functions, operators, casts, and operator classes
//! of indexes.

use stratalog_model::Result;

use crate::{
    oid,
    procedure::PROCEDURES,
    rows::{Rows, Value},
    spec::{CASTS, OPERATOR_CLASSES, OPERATORS},
};

const PG_CATALOG: i64 = 11;

pub(super) fn procedures(rows: &mut Rows<'_>) -> Result<()> {
    for procedure in PROCEDURES.iter() {
        let texts = |list: &Option<Vec<String>>| list.clone().map_or(Value::Null, Value::Texts);
        rows.push(&[
            ("oid", procedure.oid.into()),
            ("proname", (&procedure.name).into()),
            ("pronamespace", PG_CATALOG.into()),
            ("proowner", oid::ROLE.into()),
            ("prolang", 12_i64.into()),
            ("procost", procedure.cost.into()),
            ("prorows", procedure.rows.into()),
            ("provariadic", procedure.variadic.into()),
            ("prosupport", "-".into()),
            ("prokind", procedure.kind.into()),
            ("proleakproof", procedure.leakproof.into()),
            ("proisstrict", procedure.strict.into()),
            ("proretset", procedure.returns_set.into()),
            ("provolatile", procedure.volatility.into()),
            ("proparallel", procedure.parallel.into()),
            ("pronargs", procedure.parameters.len().into()),
            ("pronargdefaults", procedure.defaults.into()),
            ("prorettype", procedure.result.into()),
            ("proargtypes", Value::Ints(procedure.parameters.clone())),
            ("proallargtypes", procedure.all_parameters.clone().map_or(Value::Null, Value::Ints)),
            ("proargmodes", texts(&procedure.modes)),
            ("proargnames", texts(&procedure.names)),
            ("prosrc", (&procedure.source).into()),
        ])?;
    }
    Ok(())
}

fn number(word: Option<&str>) -> Value {
    word.and_then(|word| word.parse::<i64>().ok()).unwrap_or(0).into()
}

fn truth(word: Option<&str>) -> Value {
    (word == Some("t")).into()
}

fn text(word: Option<&str>) -> Value {
    word.unwrap_or_default().into()
}

pub(super) fn operators(rows: &mut Rows<'_>) -> Result<()> {
    for line in OPERATORS.lines() {
        let mut words = line.split('\t');
        rows.push(&[
            ("oid", number(words.next())),
            ("oprname", text(words.next())),
            ("oprnamespace", PG_CATALOG.into()),
            ("oprowner", oid::ROLE.into()),
            ("oprkind", text(words.next())),
            ("oprcanmerge", truth(words.next())),
            ("oprcanhash", truth(words.next())),
            ("oprleft", number(words.next())),
            ("oprright", number(words.next())),
            ("oprresult", number(words.next())),
            ("oprcom", number(words.next())),
            ("oprnegate", number(words.next())),
            ("oprcode", text(words.next())),
            ("oprrest", text(words.next())),
            ("oprjoin", text(words.next())),
        ])?;
    }
    Ok(())
}

pub(super) fn casts(rows: &mut Rows<'_>) -> Result<()> {
    for line in CASTS.lines() {
        let mut words = line.split('\t');
        rows.push(&[
            ("oid", number(words.next())),
            ("castsource", number(words.next())),
            ("casttarget", number(words.next())),
            ("castfunc", number(words.next())),
            ("castcontext", text(words.next())),
            ("castmethod", text(words.next())),
        ])?;
    }
    Ok(())
}

pub(super) fn operator_classes(rows: &mut Rows<'_>) -> Result<()> {
    for line in OPERATOR_CLASSES.lines() {
        let mut words = line.split('\t');
        let mut row = vec![
            ("oid", number(words.next())),
            ("opcmethod", oid::ACCESS_BTREE.into()),
            ("opcname", text(words.next())),
            ("opcnamespace", PG_CATALOG.into()),
            ("opcowner", oid::ROLE.into()),
            ("opcfamily", number(words.next())),
        ];
        let _family = words.next();
        row.extend([
            ("opcintype", number(words.next())),
            ("opcdefault", truth(words.next())),
            ("opckeytype", number(words.next())),
        ]);
        rows.push(&row)?;
    }
    Ok(())
}

pub(super) fn operator_families(rows: &mut Rows<'_>) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for line in OPERATOR_CLASSES.lines() {
        let mut words = line.split('\t').skip(2);
        let (Some(family), Some(name)) = (words.next(), words.next()) else { continue };
        if seen.contains(&family) {
            continue;
        }
        seen.push(family);
        rows.push(&[
            ("oid", number(Some(family))),
            ("opfmethod", oid::ACCESS_BTREE.into()),
            ("opfname", name.into()),
            ("opfnamespace", PG_CATALOG.into()),
            ("opfowner", oid::ROLE.into()),
        ])?;
    }
    Ok(())
}

/// The oid of the default btree operator class of a type; 0 if the type has none.
pub(super) fn default_class(type_number: i64) -> i64 {
    // All arrays share the class of the type `anyarray` (2277), and varchar has the class of text.
    let wanted = match type_number {
        1043 => 25,
        number if crate::column_type::element_of_array(number).is_some() => 2_277,
        number => number,
    };
    let found = OPERATOR_CLASSES.lines().find_map(|line| {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            [oid, _, _, _, of, "t", ..] if of.parse() == Ok(wanted) => oid.parse().ok(),
            _ => None,
        }
    });
    found.unwrap_or(0)
}

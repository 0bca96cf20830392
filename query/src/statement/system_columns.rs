//! Removes system columns from the expansion of `*` in statements that mention system columns.
//!
//! A table has a system column only in a statement that names the column. A rewrite then removes
//! the column from `*`: `SELECT *, _tick FROM t` becomes `SELECT t.* EXCLUDE (_tick), _tick FROM
//! t`.

use datafusion::sql::sqlparser::ast::{
    Cte, ExcludeSelectItem, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};
use std::ops::ControlFlow;
use stratalog_model::{Error, Result, chronicle::SYSTEM_COLUMNS};
use stratalog_postgres::{
    dialect::positions::reads_table,
    names,
    walk::{self, Change, Tree},
};

/// Rewrites every `*` of a statement that mentions `system_columns`.
///
/// # Errors
/// `FeatureNotSupported` if `*` cannot be split by tables (JOIN … USING).
pub fn hide<T: Tree>(statement: &mut T, system_columns: &[usize]) -> Result<()> {
    if system_columns.is_empty() {
        return Ok(());
    }
    let mut ctes = CteNames(Vec::new());
    let _ = walk::change(statement, &mut ctes);
    let mut hider = Hider { system_columns, ctes: ctes.0, error: None };
    let _ = walk::change(statement, &mut hider);
    match hider.error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct CteNames(Vec<String>);

impl Change for CteNames {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.0.extend(with.cte_tables.iter().map(|cte: &Cte| names::fold(&cte.alias.name)));
        }
        ControlFlow::Continue(())
    }
}

struct Hider<'a> {
    system_columns: &'a [usize],
    ctes: Vec<String>,
    error: Option<Error>,
}

impl Change for Hider<'_> {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.body(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// One relation of a FROM clause.
struct FromItem {
    name: ObjectName,
    /// True if the relation may have system columns.
    table: bool,
}

impl Hider<'_> {
    fn body(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            // The traversal visits nested queries separately.
            _ => {}
        }
    }

    fn select(&mut self, select: &mut Select) {
        if !select.projection.iter().any(|item| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _))
        }) {
            return;
        }
        let Some(relations) = self.relations(&select.from) else { return };
        if !relations.iter().any(|relation| relation.table) {
            return;
        }
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(options) => {
                    if select.from.iter().any(merges_columns) {
                        self.error = Some(
                            Error::not_yet("* of a join with USING beside a system column")
                                .with_hint("name the columns, or join with ON"),
                        );
                    }
                    for relation in &relations {
                        projection.push(self.wildcard(relation, options.clone()));
                    }
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) => {
                    let table = relations
                        .iter()
                        .any(|relation| relation.table && last(&relation.name) == last(&name));
                    projection.push(self.wildcard(&FromItem { name, table }, options));
                }
                other => projection.push(other),
            }
        }
        select.projection = projection;
    }

    fn wildcard(&self, relation: &FromItem, mut options: WildcardAdditionalOptions) -> SelectItem {
        if relation.table && options.opt_exclude.is_none() {
            let names = self
                .system_columns
                .iter()
                .filter_map(|at| SYSTEM_COLUMNS.get(*at))
                .map(|name| ObjectName::from(vec![Ident::new(*name)]))
                .collect();
            options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
        }
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(relation.name.clone()),
            options,
        )
    }

    /// The relations of a FROM clause in order; `None` if a relation has no name.
    fn relations(&self, from: &[TableWithJoins]) -> Option<Vec<FromItem>> {
        let mut found = Vec::new();
        for item in from {
            self.factor(&item.relation, &mut found)?;
            for join in &item.joins {
                self.factor(&join.relation, &mut found)?;
            }
        }
        Some(found)
    }

    fn factor(&self, factor: &TableFactor, found: &mut Vec<FromItem>) -> Option<()> {
        match factor {
            TableFactor::Table { name, alias, args, .. } => {
                let system_schema = name.0.len() > 1
                    && name.0.iter().rev().nth(1).is_some_and(|schema| {
                        let schema = schema.to_string().to_lowercase();
                        matches!(schema.as_str(), "pg_catalog" | "information_schema" | "stratalog")
                    });
                let cte = name.0.len() == 1 && self.ctes.contains(&last(name));
                let shown = match alias {
                    Some(alias) => ObjectName::from(vec![alias.name.clone()]),
                    None => name.clone(),
                };
                found.push(FromItem {
                    name: shown,
                    table: (args.is_none()
                        || reads_table(&last(name))
                        || names::replays::is_replay(&last(name)))
                        && !cte
                        && !system_schema
                        && !last(name).starts_with("pg_"),
                });
                Some(())
            }
            // A table function after LATERAL.
            TableFactor::Function { name, alias, .. }
                if names::replays::is_replay(&last(name)) || reads_table(&last(name)) =>
            {
                let shown = match alias {
                    Some(alias) => alias.name.clone(),
                    None => name.0.last()?.as_ident()?.clone(),
                };
                found.push(FromItem { name: ObjectName::from(vec![shown]), table: true });
                Some(())
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.factor(&table_with_joins.relation, found)?;
                for join in &table_with_joins.joins {
                    self.factor(&join.relation, found)?;
                }
                Some(())
            }
            TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => {
                let name = ObjectName::from(vec![alias.name.clone()]);
                found.push(FromItem { name, table: false });
                Some(())
            }
            _ => None,
        }
    }
}

fn merges_columns(from: &TableWithJoins) -> bool {
    from.joins.iter().any(|join| match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => {
            matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
        }
        _ => false,
    })
}

fn last(name: &ObjectName) -> String {
    match name.0.last().and_then(|part| part.as_ident()) {
        Some(ident) => names::fold(ident),
        None => String::new(),
    }
}

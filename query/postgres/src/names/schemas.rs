//! Resolves tables with the same name in several schemas, and column names that include a schema.
//!
//! DataFusion ignores the schema when comparing `public.tq.v` with a table that FROM names without
//! a schema. The pass resolves the names like PostgreSQL, before DataFusion sees the statement:
//! every table with an ambiguous name gets an alias, and column references use the alias. The first
//! query becomes the second query:
//!
//! ```text
//!   SELECT public.tq.v, s1.tq.v FROM tq, s1.tq
//!   SELECT "public.tq".v, "s1.tq".v FROM tq AS "public.tq", s1.tq AS "s1.tq"
//! ```

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor,
    TableWithJoins,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::{NameResolver, fold, replays};
use crate::walk::{self, Change, Flow, Look, Tree};

/// The schema and the name of a table.
type Identity = (String, String);

/// Resolves the names of tables, and of columns with a table or schema, in a statement.
///
/// # Errors
/// `UndefinedTable` for a column of a table that FROM does not contain, `AmbiguousColumn` for a
/// table name that denotes two tables in FROM, `DuplicateAlias`, and `FeatureNotSupported` for a
/// name in another database.
pub fn resolve(tree: &mut impl Tree, resolver: &dyn NameResolver) -> Result<()> {
    let mut mentions = Mentions::default();
    let _ = walk::look(&*tree, &mut mentions);
    if !mentions.is_relevant() {
        return Ok(());
    }
    let aliases = mentions.aliases(resolver);
    let mut resolver =
        Resolver { resolver, aliases, levels: Vec::new(), next_is_apart: false, error: None };
    let _ = walk::change(tree, &mut resolver);
    resolver.error.map_or(Ok(()), Err)
}

/// Resolves the qualified names in the RETURNING of an INSERT into `schema.table`. `shown` is the
/// name that the statement uses for the table; `is_named` is true if `shown` is the table's name
/// and not an alias.
///
/// # Errors
/// `UndefinedTable` for a column of another table.
pub fn resolve_returning(
    items: &mut Vec<SelectItem>,
    (schema, table): (&str, &str),
    (shown, is_named): (&Ident, bool),
) -> Result<()> {
    let mut outcome = Ok(());
    let _ = walk::own_expressions_mut(items, |expr| {
        let Expr::CompoundIdentifier(idents) = expr else { return ControlFlow::Continue(()) };
        let [.., of, name, column] = idents.as_slice() else { return ControlFlow::Continue(()) };
        if !is_named || fold(of) != schema || fold(name) != table {
            outcome = Err(Error::new(
                ErrorKind::UndefinedTable,
                format!("missing FROM-clause entry for table \"{}\"", fold(name)),
            ));
            return ControlFlow::Break(());
        }
        *idents = vec![shown.clone(), column.clone()];
        ControlFlow::Continue(())
    });
    outcome
}

/// The names that a statement mentions.
#[derive(Default)]
struct Mentions {
    /// True if a column name or a wildcard includes a table or a schema.
    has_qualified: bool,
    /// The tables that have no alias: for the last part of each name, all spellings of the name.
    tables: HashMap<String, HashSet<Vec<String>>>,
    /// The aliases of tables, and the names of WITH queries.
    others: HashSet<String>,
}

impl Mentions {
    /// True if one name may denote two tables of the statement, so that the pass has to resolve
    /// names.
    fn is_relevant(&self) -> bool {
        let repeated = |(name, spellings): (&String, &HashSet<Vec<String>>)| {
            let uses = spellings.len() + usize::from(self.others.contains(name));
            uses > 1 && spellings.iter().any(|parts| parts.len() > 1)
        };
        self.has_qualified || self.tables.iter().any(repeated)
    }

    /// A new alias for each table whose name has several meanings in the statement.
    fn aliases(&self, resolver: &dyn NameResolver) -> HashMap<Identity, String> {
        let mut aliases = HashMap::new();
        for (name, spellings) in &self.tables {
            let identities: HashSet<Identity> =
                spellings.iter().filter_map(|parts| resolver.identity(parts)).collect();
            if identities.len() + usize::from(self.others.contains(name)) < 2 {
                continue;
            }
            for (schema, table) in identities {
                let mut alias = format!("{schema}.{table}");
                while self.tables.contains_key(&alias) || self.others.contains(&alias) {
                    alias.push('\'');
                }
                aliases.insert((schema, table), alias);
            }
        }
        aliases
    }
}

impl Look for Mentions {
    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.others.extend(ctes.map(|cte| fold(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        self.has_qualified |= select.projection.iter().any(|item| {
            matches!(
                item,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), _)
            )
        });
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        match (alias_of(factor), factor) {
            (Some(alias), _) => {
                self.others.insert(fold(&alias.name));
            }
            (None, TableFactor::Table { name, .. }) => {
                if let Some(parts) = parts(name)
                    && let Some(last) = parts.last()
                {
                    self.tables.entry(last.clone()).or_default().insert(parts.clone());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.has_qualified |= match expr {
            Expr::CompoundIdentifier(idents) => idents.len() > 2,
            Expr::QualifiedWildcard(name, _) => name.0.len() > 1,
            Expr::Function(call) => wildcards_of(&call.args).any(|name| name.0.len() > 1),
            _ => false,
        };
        ControlFlow::Continue(())
    }
}

/// The parts of a name, folded to lower case unless quoted; `None` for a name that contains a call.
fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(fold)).collect()
}

fn alias_of(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// The table names in the `t.*` arguments of a call, as in `count(t.*)`.
fn wildcards_of(arguments: &FunctionArguments) -> impl Iterator<Item = &ObjectName> {
    let list = match arguments {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => Some(name),
        _ => None,
    })
}

fn wildcards_of_mut(arguments: &mut FunctionArguments) -> impl Iterator<Item = &mut ObjectName> {
    let list = match arguments {
        FunctionArguments::List(list) => list.args.as_mut_slice(),
        _ => &mut [],
    };
    list.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => Some(name),
        _ => None,
    })
}

/// One table or subquery in FROM.
struct FromEntry {
    /// The name by which column references denote the entry.
    name: String,
    /// The table, if the entry is a table without an alias.
    table: Option<Identity>,
    /// The alias that the pass gives to the entry.
    new_alias: Option<String>,
    /// The parts of the table name as written in FROM.
    name_parts: Vec<String>,
    /// True if the entry is part of a parenthesized join with an alias: only the alias is visible.
    hidden: bool,
}

/// The names that one query or SELECT defines.
struct NameScope {
    relations: Vec<FromEntry>,
    /// The names of the WITH queries. `visited` counts the WITH queries that the walk has visited.
    ctes: Vec<String>,
    visited: usize,
    recursive: bool,
    /// True if the query body is a single SELECT. Only then can ORDER BY name the tables of the
    /// SELECT.
    is_plain: bool,
    /// The index of the enclosing scope.
    parent: Option<usize>,
}

struct Resolver<'a> {
    resolver: &'a dyn NameResolver,
    aliases: HashMap<Identity, String>,
    levels: Vec<NameScope>,
    /// True if the next visited query is a derived table, which cannot name the other tables of its
    /// FROM.
    next_is_apart: bool,
    error: Option<Error>,
}

impl Resolver<'_> {
    fn go_on(&mut self, outcome: Result<()>) -> Flow {
        self.error = outcome.err();
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The scopes in which a name lookup searches, the innermost first.
    fn visible(&self) -> impl Iterator<Item = &NameScope> {
        let innermost = self.levels.last();
        std::iter::successors(innermost, |level| self.levels.get(level.parent?))
    }

    fn is_cte(&self, name: &str) -> bool {
        self.visible().any(|level| {
            let known = if level.recursive { level.ctes.len() } else { level.visited };
            level.ctes.iter().take(known).any(|cte| cte == name)
        })
    }

    /// The scope for the arguments of `replay` and `playback`: a condition names columns of the
    /// replayed table, and not of other tables in FROM.
    fn replayed(&self, table: Option<&str>) -> Result<NameScope> {
        let table = table.map(|name| self.resolver.table_named(name)).transpose()?;
        let relation = table.map(|table| FromEntry {
            name: table.name.clone(),
            table: Some((table.schema.clone(), table.name.clone())),
            new_alias: None,
            name_parts: vec![table.name.clone()],
            hidden: false,
        });
        Ok(NameScope {
            relations: relation.into_iter().collect(),
            ctes: Vec::new(),
            visited: 0,
            recursive: false,
            is_plain: false,
            parent: self.levels.last().and_then(|level| level.parent),
        })
    }

    /// Collects the tables of FROM, and gives aliases to tables whose names have several meanings.
    fn relations(&self, from: &mut [TableWithJoins]) -> Result<Vec<FromEntry>> {
        let mut found = Vec::new();
        for item in from {
            self.item(item, false, &mut found);
        }
        for (at, relation) in found.iter().enumerate() {
            let repeats = |other: &FromEntry| {
                let tells_apart = matches!((&other.table, &relation.table),
                    (Some(other), Some(table)) if other != table);
                !other.hidden && other.name == relation.name && !tells_apart
            };
            if !relation.hidden && found.iter().take(at).any(repeats) {
                return Err(Error::new(
                    ErrorKind::DuplicateAlias,
                    format!("table name \"{}\" specified more than once", relation.name),
                ));
            }
        }
        Ok(found)
    }

    fn item(&self, item: &mut TableWithJoins, hidden: bool, found: &mut Vec<FromEntry>) {
        self.factor(&mut item.relation, hidden, found);
        for join in &mut item.joins {
            self.factor(&mut join.relation, hidden, found);
        }
    }

    fn factor(&self, factor: &mut TableFactor, hidden: bool, found: &mut Vec<FromEntry>) {
        let named = alias_of(factor).map(|alias| fold(&alias.name));
        let is_named = named.is_some();
        found.extend(named.map(|name| {
            let name_parts = vec![name.clone()];
            FromEntry { name, table: None, new_alias: None, name_parts, hidden }
        }));
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                self.item(table_with_joins, hidden || is_named, found);
            }
            TableFactor::Table { name, alias, args, .. } if !is_named => {
                let Some(parts) = parts(name) else { return };
                let Some(last) = parts.last().cloned() else { return };
                let is_table = args.is_none() && !(parts.len() == 1 && self.is_cte(&last));
                let table = self.resolver.identity(&parts).filter(|_| is_table);
                let new_alias = table.as_ref().and_then(|table| self.aliases.get(table)).cloned();
                if let Some(new_alias) = &new_alias {
                    *alias = Some(TableAlias {
                        explicit: true,
                        name: Ident::with_quote('"', new_alias),
                        columns: Vec::new(),
                        at: None,
                    });
                }
                found.push(FromEntry { name: last, table, new_alias, name_parts: parts, hidden });
            }
            _ => {}
        }
    }

    /// The new qualifier of a column name `schema.table.column` or `table.column`; `None` if the
    /// name stays.
    fn qualifier(&self, parts: &[String]) -> Result<Option<Ident>> {
        let Some(relation) = self.relation(parts)? else { return Ok(None) };
        let new_alias = relation.new_alias.as_ref();
        let name = if parts.len() == 1 { new_alias } else { new_alias.or(Some(&relation.name)) };
        Ok(name.map(|name| Ident::with_quote('"', name)))
    }

    /// The entry of FROM that `schema.table` or `table` denotes; `None` if no visible scope has the
    /// entry.
    fn relation(&self, parts: &[String]) -> Result<Option<&FromEntry>> {
        let (schema, table) = match parts {
            [table] => return self.by_name(table),
            [schema, table] => (schema, table),
            [database, schema, table] if self.resolver.is_database(database) => (schema, table),
            [_, _, _] => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    format!("cross-database references are not supported: {}", parts.join(".")),
                ));
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    format!("improper qualified name (too many dotted names): {}", parts.join(".")),
                ));
            }
        };
        let is_it = |relation: &&FromEntry| matches!(&relation.table, Some((of, name)) if of == schema && name == table);
        let found = self.visible().find_map(|level| level.relations.iter().find(is_it));
        let Some(relation) = found else {
            let named =
                |level: &NameScope| level.relations.iter().any(|other| other.name == *table);
            let what = if self.visible().any(named) { "invalid reference to" } else { "missing" };
            return Err(Error::new(
                ErrorKind::UndefinedTable,
                format!("{what} FROM-clause entry for table \"{table}\""),
            ));
        };
        Ok(Some(relation))
    }

    fn by_name(&self, table: &str) -> Result<Option<&FromEntry>> {
        for level in self.visible() {
            let mut named = level.relations.iter().filter(|relation| relation.name == table);
            let Some(relation) = named.next() else { continue };
            if named.next().is_some() {
                return Err(Error::new(
                    ErrorKind::AmbiguousColumn,
                    format!("table reference \"{table}\" is ambiguous"),
                )
                .with_hint("name the schema of the table, or give each table an alias"));
            }
            return Ok(Some(relation));
        }
        Ok(None)
    }

    fn column(&self, idents: &mut Vec<Ident>) -> Result<()> {
        let folded: Vec<String> = idents.iter().map(fold).collect();
        let Some((column, qualifier)) = folded
            .split_last()
            .zip(idents.last())
            .map(|((_, qualifier), column)| (column.clone(), qualifier))
        else {
            return Ok(());
        };
        if let Some(table) = self.qualifier(qualifier)? {
            *idents = vec![table, column];
        }
        Ok(())
    }

    fn wildcard(&self, name: &mut ObjectName) -> Result<()> {
        let Some(parts) = parts(name) else { return Ok(()) };
        let Some(relation) = self.relation(&parts)? else { return Ok(()) };
        // The planner compares all parts of a column's qualifier with the name in FROM.
        let parts = match &relation.new_alias {
            Some(new_alias) => std::slice::from_ref(new_alias),
            None => relation.name_parts.as_slice(),
        };
        let idents = parts.iter().map(|part| Ident::with_quote('"', part));
        *name = ObjectName(idents.map(ObjectNamePart::Identifier).collect());
        Ok(())
    }
}

impl Change for Resolver<'_> {
    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let innermost = self.levels.len().checked_sub(1);
        let parent = match std::mem::take(&mut self.next_is_apart) {
            true => self.levels.last().and_then(|level| level.parent),
            false => innermost,
        };
        let with = query.with.as_ref();
        let ctes = with.into_iter().flat_map(|with| &with.cte_tables);
        self.levels.push(NameScope {
            relations: Vec::new(),
            ctes: ctes.map(|cte| fold(&cte.alias.name)).collect(),
            visited: 0,
            recursive: with.is_some_and(|with| with.recursive),
            is_plain: matches!(query.body.as_ref(), SetExpr::Select(_)),
            parent,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        self.levels.pop();
        if let Some(outer) = self.levels.last_mut()
            && outer.visited < outer.ctes.len()
        {
            outer.visited += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        let parent = self.levels.len().checked_sub(1);
        let relations = match self.relations(&mut select.from) {
            Ok(relations) => relations,
            Err(error) => return self.go_on(Err(error)),
        };
        self.levels.push(NameScope {
            relations,
            ctes: Vec::new(),
            visited: 0,
            recursive: false,
            is_plain: false,
            parent,
        });
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
            {
                let resolved = self.wildcard(name);
                self.go_on(resolved)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> Flow {
        if let Some(select) = self.levels.pop()
            && let Some(query) = self.levels.last_mut()
            && query.is_plain
        {
            query.relations = select.relations;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        self.next_is_apart = matches!(factor, TableFactor::Derived { lateral: false, .. });
        match replays::table_of(factor).map(|table| self.replayed(table)) {
            None => ControlFlow::Continue(()),
            Some(Ok(level)) => {
                self.levels.push(level);
                ControlFlow::Continue(())
            }
            Some(Err(error)) => self.go_on(Err(error)),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        if replays::table_of(factor).is_some() {
            self.levels.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        let resolved = match expr {
            Expr::CompoundIdentifier(idents) => self.column(idents),
            Expr::QualifiedWildcard(name, _) => self.wildcard(name),
            Expr::Function(call) => {
                wildcards_of_mut(&mut call.args).try_for_each(|name| self.wildcard(name))
            }
            _ => Ok(()),
        };
        self.go_on(resolved)
    }
}

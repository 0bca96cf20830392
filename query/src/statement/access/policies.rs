//! Row policies: the predicates are checked by planning them as a column of a query of the table.

use std::ops::ControlFlow;

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    logical_expr::{Expr as PlanExpr, LogicalPlan, Volatility},
    sql::sqlparser::ast::{
        AlterTableOperation, Expr, Ident, ObjectName, SelectItem, SetExpr, Statement, Value,
    },
};
use stratalog_functions::{
    function::sql_name,
    plan_walk::{PlanWalk, TreeWalk},
};
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result};
use stratalog_postgres::{
    errors::from_datafusion,
    names, parse,
    parse::access::{PolicySyntax, RoleSpec},
    walk,
};
use stratalog_visor_core::{
    access::{AccessCommand, Policy, PolicyCommand},
    catalog::Command,
};

use super::role_name;
use crate::{
    Session,
    statement::{Parsed, query},
};

/// Maximum length of a predicate in bytes.
const PREDICATE_BYTES_MAX: usize = 16 << 10;

pub(super) async fn create(
    session: &Session,
    parsed: &Parsed,
    syntax: &PolicySyntax,
) -> Result<Vec<AccessCommand>> {
    let table = session.chronicle(&syntax.table)?;
    let (using_sql, check_sql) = predicates(session, parsed, syntax, &table).await?;
    let command = match syntax.command.as_str() {
        "SELECT" => PolicyCommand::Select,
        "INSERT" => PolicyCommand::Insert,
        _ => PolicyCommand::All,
    };
    let policy = Policy {
        chronicle: table.id,
        name: names::fold(&syntax.name),
        command,
        permissive: syntax.permissive,
        roles: Vec::new(),
        using_sql,
        check_sql,
    };
    let roles = roles(session, syntax.roles.as_deref().unwrap_or_default())?;
    Ok(vec![AccessCommand::CreatePolicy { policy: Box::new(policy), roles }])
}

pub(super) async fn alter(
    session: &Session,
    parsed: &Parsed,
    syntax: &PolicySyntax,
) -> Result<Vec<AccessCommand>> {
    let table = session.chronicle(&syntax.table)?;
    let name = names::fold(&syntax.name);
    let (using_sql, check_sql) = predicates(session, parsed, syntax, &table).await?;
    let state = session.whole_catalog();
    let command = state.access().policies(table.id).iter().find(|one| one.name == name);
    let refused = match command.map(|policy| policy.command) {
        Some(PolicyCommand::Select) if check_sql.is_some() => {
            Some("only USING expression allowed for SELECT, DELETE")
        }
        Some(PolicyCommand::Insert) if using_sql.is_some() => {
            Some("only WITH CHECK expression allowed for INSERT")
        }
        _ => None,
    };
    if let Some(message) = refused {
        return Err(Error::new(ErrorKind::SyntaxError, message));
    }
    let roles = syntax.roles.as_ref().map(|listed| roles(session, listed)).transpose()?;
    let rename = None;
    Ok(vec![AccessCommand::AlterPolicy {
        chronicle: table.id,
        name,
        rename,
        roles,
        using_sql,
        check_sql,
    }])
}

pub(super) fn rename(
    session: &Session,
    name: &Ident,
    table: &ObjectName,
    to: &Ident,
) -> Result<Vec<AccessCommand>> {
    Ok(vec![AccessCommand::AlterPolicy {
        chronicle: session.chronicle(table)?.id,
        name: names::fold(name),
        rename: Some(names::fold(to)),
        roles: None,
        using_sql: None,
        check_sql: None,
    }])
}

pub(super) fn drop(
    session: &Session,
    name: &Ident,
    table: &ObjectName,
    if_exists: bool,
) -> Result<Vec<AccessCommand>> {
    let chronicle = match session.chronicle(table) {
        Ok(found) => found.id,
        Err(error) if if_exists && error.kind() == ErrorKind::UndefinedTable => {
            session.say(crate::Notice::new(format!("{}, skipping", error.message())));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    Ok(vec![AccessCommand::DropPolicy { chronicle, name: names::fold(name), if_exists }])
}

/// The roles of a policy; empty for PUBLIC.
fn roles(session: &Session, listed: &[RoleSpec]) -> Result<Vec<String>> {
    if listed.contains(&RoleSpec::Public) {
        if listed.len() > 1 {
            let message = "ignoring specified roles other than PUBLIC";
            let notice = crate::Notice::warning("01000", message);
            session.say(crate::Notice {
                hint: Some("All roles are members of the PUBLIC role.".to_string()),
                ..notice
            });
        }
        return Ok(Vec::new());
    }
    listed.iter().map(|role| role_name(session, role)).collect()
}

/// The command of ENABLE, DISABLE, FORCE and NO FORCE ROW LEVEL SECURITY; `None` for another
/// operation.
pub(crate) fn row_security(
    table: &ChronicleDefinition,
    operation: &AlterTableOperation,
) -> Option<Command> {
    let (enabled, forced) = match operation {
        AlterTableOperation::EnableRowLevelSecurity => (Some(true), None),
        AlterTableOperation::DisableRowLevelSecurity => (Some(false), None),
        AlterTableOperation::ForceRowLevelSecurity => (None, Some(true)),
        AlterTableOperation::NoForceRowLevelSecurity => (None, Some(false)),
        _ => return None,
    };
    let chronicle = table.id;
    Some(Command::Access(AccessCommand::SetRowSecurity { chronicle, enabled, forced }))
}

/// Checks that no policy names a column that gets another name.
///
/// # Errors
/// `DependentObjects`.
pub(crate) fn check_rename(
    session: &Session,
    table: &ChronicleDefinition,
    column: &str,
) -> Result<()> {
    for policy in session.whole_catalog().access().policies(table.id) {
        for sql in [&policy.using_sql, &policy.check_sql].into_iter().flatten() {
            let expression = parse::expression(sql)?;
            let names_column = walk::expressions(&expression, |inner| match inner {
                Expr::Identifier(name) if names::fold(name) == column => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            if names_column.is_break() {
                return Err(Error::new(
                    ErrorKind::DependentObjects,
                    format!(
                        "cannot rename column \"{column}\" because policy \"{}\" uses the column",
                        policy.name
                    ),
                )
                .with_hint("drop the policy, rename the column, and create the policy again"));
            }
        }
    }
    Ok(())
}

/// The texts of USING and WITH CHECK.
async fn predicates(
    session: &Session,
    parsed: &Parsed,
    syntax: &PolicySyntax,
    table: &ChronicleDefinition,
) -> Result<(Option<String>, Option<String>)> {
    if !syntax.has_using && !syntax.has_check {
        return Ok((None, None));
    }
    if !parsed.system_columns().is_empty() {
        return Err(refused("system columns are not supported in policy expressions"));
    }
    let Statement::Query(tree) = parsed.statement() else {
        return Err(Error::internal("a policy without predicates"));
    };
    let SetExpr::Select(select) = tree.body.as_ref() else {
        return Err(Error::internal("a policy without predicates"));
    };
    let mut texts = Vec::new();
    for item in &select.projection {
        let SelectItem::UnnamedExpr(predicate) = item else {
            return Err(Error::internal("a predicate with a name"));
        };
        texts.push(predicate_text(session, predicate, table).await?);
    }
    let mut texts = texts.into_iter();
    let using_sql = syntax.has_using.then(|| texts.next()).flatten();
    let check_sql = syntax.has_check.then(|| texts.next()).flatten();
    Ok((using_sql, check_sql))
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::FeatureNotSupported, message)
        .with_hint("a policy is a boolean expression of the table's columns and of current_user")
}

/// The text of a predicate with unqualified columns, after all checks.
async fn predicate_text(
    session: &Session,
    predicate: &Expr,
    table: &ChronicleDefinition,
) -> Result<String> {
    let mut predicate = predicate.clone();
    check_syntax(&predicate)?;
    let _ = walk::expressions_mut(&mut predicate, |inner| {
        if let Expr::CompoundIdentifier(parts) = inner
            && let [.., of, column] = parts.as_slice()
            && names::fold(of) == table.name
        {
            *inner = Expr::Identifier(column.clone());
        }
        ControlFlow::Continue(())
    });
    let text = match &predicate {
        Expr::Identifier(_) | Expr::Value(_) | Expr::Function(_) | Expr::Nested(_) => {
            predicate.to_string()
        }
        other => format!("({other})"),
    };
    if text.len() > PREDICATE_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a policy expression is longer than {PREDICATE_BYTES_MAX} bytes"),
        ));
    }
    check_plan(session, &text, table).await?;
    Ok(text)
}

/// Refuses subqueries and parameters.
fn check_syntax(predicate: &Expr) -> Result<()> {
    let mut error = None;
    let _ = walk::expressions(predicate, |inner| {
        error = match inner {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                Some(refused("subqueries are not supported in policy expressions"))
            }
            Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => {
                let message = "there is no parameter in a policy expression";
                Some(Error::new(ErrorKind::UndefinedParameter, message))
            }
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(())
    });
    error.map_or(Ok(()), Err)
}

/// Plans the predicate as a column of the table, and checks the plan.
async fn check_plan(session: &Session, text: &str, table: &ChronicleDefinition) -> Result<()> {
    let (schema, name) = (names::quoted(&table.schema), names::quoted(&table.name));
    let sql = format!("SELECT ({text}) FROM {schema}.{name}");
    let trees = parse::statements(&sql, session.settings().statement_bytes_max)?;
    let Some(Statement::Query(tree)) = trees.first().map(|tree| &tree.statement) else {
        return Err(Error::internal("a policy is no query"));
    };
    let planner = session.enter_planner(&[]).await?;
    let (planned, types) = query::plan(&planner, tree, &[], &[]).await?;
    if !types.is_empty() {
        return Err(Error::new(
            ErrorKind::UndefinedParameter,
            "there is no parameter in a policy expression",
        ));
    }
    check_nodes(&planned.plan)?;
    use arrow::datatypes::DataType;
    match planned.schema.fields().first().map(|field| field.data_type()) {
        Some(DataType::Boolean | DataType::Null) => Ok(()),
        given => {
            let given = given.map_or_else(|| "unknown".to_string(), sql_name);
            Err(Error::new(
                ErrorKind::DatatypeMismatch,
                format!("argument of POLICY must be type boolean, not type {given}"),
            ))
        }
    }
}

fn check_nodes(plan: &LogicalPlan) -> Result<()> {
    let mut error = None;
    plan.each_with_subqueries(|node| {
        error = match node {
            LogicalPlan::Aggregate(_) => Some(Error::new(
                ErrorKind::GroupingError,
                "aggregate functions are not allowed in policy expressions",
            )),
            LogicalPlan::Window(_) => Some(Error::new(
                ErrorKind::WindowingError,
                "window functions are not allowed in policy expressions",
            )),
            LogicalPlan::Unnest(_) => Some(Error::new(
                ErrorKind::FeatureNotSupported,
                "set-returning functions are not allowed in policy expressions",
            )),
            LogicalPlan::Join(_) | LogicalPlan::Subquery(_) => {
                Some(refused("only columns of the table are supported in policy expressions"))
            }
            other => volatile(other)?,
        };
        Ok(if error.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .map_err(from_datafusion)?;
    error.map_or(Ok(()), Err)
}

/// The error for a volatile function in a node.
fn volatile(node: &LogicalPlan) -> datafusion::common::Result<Option<Error>> {
    let mut found = None;
    for expression in node.expressions() {
        expression.each(|inner| {
            if let PlanExpr::ScalarFunction(call) = inner
                && call.func.signature().volatility == Volatility::Volatile
            {
                found = Some(refused("volatile functions are not supported in policy expressions"));
                return Ok(TreeNodeRecursion::Stop);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}

//! Expands windows that extend a named window, `OVER (w ROWS 3 PRECEDING)`, because the planner
//! would ignore the name. Also rewrites the computed offsets of window frames.

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    Expr, NamedWindowDefinition, NamedWindowExpr, OrderBy, Select, WindowSpec, WindowType,
};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    names::fold,
    walk::{self, Tree},
};

mod offsets;

/// Replaces the names of windows in a select, and in its ORDER BY, with the clauses of these
/// windows.
///
/// # Errors
/// PostgreSQL's error for a window that does not exist or cannot be copied.
pub fn write_out(select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
    let mut named: HashMap<String, WindowSpec> = HashMap::new();
    for NamedWindowDefinition(name, window) in &mut select.named_window {
        // The planner itself resolves a window that is only another name (`WINDOW a AS b`).
        if let NamedWindowExpr::WindowSpec(spec) = window {
            copy(spec, &named)?;
            offsets::write_out(spec)?;
            named.insert(fold(name), spec.clone());
        }
    }
    in_tree(&mut select.projection, &named)?;
    match order_by {
        Some(order_by) => in_tree(order_by, &named),
        None => Ok(()),
    }
}

fn in_tree(tree: &mut impl Tree, named: &HashMap<String, WindowSpec>) -> Result<()> {
    let mut outcome = Ok(());
    let _ = walk::own_expressions_mut(tree, |expr| {
        if let Expr::Function(call) = expr {
            match &mut call.over {
                Some(WindowType::WindowSpec(spec)) => {
                    outcome = copy(spec, named).and_then(|()| offsets::write_out(spec));
                }
                // The planner would also look for the name in the enclosing query.
                Some(over @ WindowType::NamedWindow(_)) => outcome = write_in(over, named),
                None => {}
            }
        }
        if outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    outcome
}

/// Replaces the window name in `OVER name` with the window's definition.
fn write_in(over: &mut WindowType, named: &HashMap<String, WindowSpec>) -> Result<()> {
    let WindowType::NamedWindow(name) = over else { return Ok(()) };
    let name = fold(name);
    match named.get(&name) {
        Some(spec) => *over = WindowType::WindowSpec(spec.clone()),
        None => {
            let message = format!("window \"{name}\" does not exist");
            return Err(Error::new(ErrorKind::UndefinedObject, message));
        }
    }
    Ok(())
}

/// Copies the clauses of the named window that `spec` extends into `spec`.
fn copy(spec: &mut WindowSpec, named: &HashMap<String, WindowSpec>) -> Result<()> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let name = fold(&name);
    let refused = |what: &str| Err(Error::new(ErrorKind::WindowingError, what.to_string()));
    let Some(base) = named.get(&name) else {
        let message = format!("window \"{name}\" does not exist");
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    };
    if !spec.partition_by.is_empty() {
        return refused(&format!("cannot override PARTITION BY clause of window \"{name}\""));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refused(&format!("cannot override ORDER BY clause of window \"{name}\""));
    }
    if base.window_frame.is_some() {
        return refused(&format!("cannot copy window \"{name}\" because it has a frame clause"));
    }
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}

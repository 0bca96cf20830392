//! Reuse of plans for queries that differ only in their constants: such queries have the same shape
//! (text without constants).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use datafusion::scalar::ScalarValue;
use stratalog_functions::literal::scalar_of;
use stratalog_model::{Error, Result};
use stratalog_postgres::parse;
use stratalog_text::parse_value;

use super::Session;
use crate::{
    Parsed, Prepared, StatementKind,
    statement::{
        Plan,
        shape::{self, Shape},
    },
};

/// Maximum number of shapes in a session.
const SHAPES_MAX: usize = 64;

/// Longest text, in bytes, for which the session looks up the shape before parsing.
const SHAPED_TEXT_BYTES_MAX: usize = 4 * 1024;

/// The known shapes, by text. A full list drops its oldest shape.
#[derive(Debug, Default)]
pub struct Shapes {
    known: HashMap<String, ShapeState>,
    order: VecDeque<String>,
}

/// What the session knows about a shape.
#[derive(Debug, Clone)]
enum ShapeState {
    /// The shape has occurred once.
    Seen,
    /// The shape cannot be planned with parameters under these versions of the catalog and the
    /// settings.
    Unfit(u64, u64),
    /// The shape is planned, with parameters in place of the constants.
    Planned(Arc<Prepared>),
}

impl Shapes {
    fn note(&mut self, text: &str, known: ShapeState) {
        if self.known.insert(text.to_string(), known).is_none() {
            self.order.push_back(text.to_string());
            if self.order.len() > SHAPES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
    }
}

impl Session {
    /// The plan of a query's shape, and the values of the constants. `None` for a new shape, and
    /// for a query that must be planned with its constants.
    pub(super) async fn shaped(
        &self,
        parsed: &Arc<Parsed>,
    ) -> Option<(Arc<Prepared>, Vec<ScalarValue>)> {
        if parsed.kind() != StatementKind::Read || !parsed.system_columns().is_empty() {
            return None;
        }
        let shape = match parsed.shape() {
            Some((like, constants)) => {
                Shape { text: like.parsed.text().to_string(), constants: constants.to_vec() }
            }
            None => shape::of(parsed.text())?,
        };
        let versions = (self.catalog().version(), self.variables().version());
        let current =
            |planned: &Prepared| (planned.catalog_version, planned.settings_version) == versions;
        let known = self.cache.lock().shapes.known.get(&shape.text).cloned();
        let planned = match known {
            None => {
                self.cache.lock().shapes.note(&shape.text, ShapeState::Seen);
                return None;
            }
            Some(ShapeState::Unfit(catalog, settings)) if (catalog, settings) == versions => {
                return None;
            }
            Some(ShapeState::Planned(planned)) if current(&planned) => planned,
            Some(_) => {
                let planned = self.plan_shape(&shape.text).await;
                let known = match &planned {
                    Some(planned) => ShapeState::Planned(Arc::clone(planned)),
                    None => ShapeState::Unfit(versions.0, versions.1),
                };
                self.cache.lock().shapes.note(&shape.text, known);
                planned?
            }
        };
        let style = self.variables().parsed().style;
        let types = planned.parameter_types();
        if types.len() != shape.constants.len() {
            return None;
        }
        let values = shape.constants.iter().zip(types).map(|(constant, of)| {
            // On an error, use a normal plan of the query, which reports the error of the constant.
            let value = parse_value(Some(constant), of, &style).ok()?;
            scalar_of(&value).ok()
        });
        Some((Arc::clone(&planned), values.collect::<Option<_>>()?))
    }

    /// Recognizes a query with a planned shape, without parsing; `None` for other texts.
    pub(super) fn known_shape(&self, sql: &str) -> Option<Parsed> {
        let begins = sql.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        let most = self.settings().statement_bytes_max.min(SHAPED_TEXT_BYTES_MAX);
        if !begins || sql.len() > most {
            return None;
        }
        let shape = shape::of(sql)?;
        let versions = (self.catalog().version(), self.variables().version());
        match self.cache.lock().shapes.known.get(&shape.text)? {
            ShapeState::Planned(planned)
                if (planned.catalog_version, planned.settings_version) == versions
                    && planned.parameter_types().len() == shape.constants.len() =>
            {
                Some(Parsed::shaped(sql, Arc::clone(planned), shape.constants))
            }
            _ => None,
        }
    }

    /// The statement with its own syntax tree; parses the text if necessary.
    ///
    /// # Errors
    /// The errors of [`Session::parse`].
    pub(crate) fn whole(&self, parsed: &Arc<Parsed>) -> Result<Arc<Parsed>> {
        if parsed.shape().is_none() {
            return Ok(Arc::clone(parsed));
        }
        let most = self.settings().statement_bytes_max;
        let tree = parse::statements(parsed.text(), most)?.into_iter().next();
        let tree = tree.ok_or_else(|| Error::internal("a query is no statement"))?;
        Ok(Arc::new(Parsed::new(tree)))
    }

    /// Plans a shape; `None` if the type of a parameter is undetermined, or if the plan cannot be
    /// reused with other constants.
    async fn plan_shape(&self, text: &str) -> Option<Arc<Prepared>> {
        let most = self.settings().statement_bytes_max;
        let [tree] = <[_; 1]>::try_from(parse::statements(text, most).ok()?).ok()?;
        let parsed = Arc::new(Parsed::new(tree));
        let prepared = self.try_prepare(&parsed, &[]).await.ok()?;
        let Plan::Query(query) = &prepared.plan else { return None };
        let fits = prepared.guessed_parameters.is_empty()
            && (query.point.is_some() || query.has_template());
        fits.then_some(prepared)
    }
}

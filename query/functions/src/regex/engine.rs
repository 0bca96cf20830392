//! Compiled regular expressions. Of the matches with the same earliest start, the longest match is
//! the result, as in PostgreSQL. If the first quantifier is non-greedy, the shortest match is the
//! result.
//!
//! An expression without back-references and look-around needs linear time. Any other expression
//! backtracks, and each step may read the whole text. Therefore the limit of steps is lower for
//! longer texts. If a search in a long text exceeds the limit, a second search tries the start
//! positions one by one. The limit then applies to each start position, and between the positions
//! the search checks whether the statement must stop.

use std::sync::{Mutex, OnceLock, PoisonError};

use fancy_regex::{Captures, Regex, RegexBuilder, RegexInput, RuntimeError};
use regex_automata::{
    Anchored, Input, MatchKind,
    hybrid::dfa::{Cache, DFA},
};
use stratalog_model::{Error, ErrorKind, Result};

use super::{
    Flags,
    syntax::{TranslatedExpression, translate},
};
use crate::governor;

/// The highest limit of backtracking steps in one search. Longer texts have a lower limit.
const STEPS_MAX: usize = 1_000_000;

/// The number of bytes that all steps of one search may read, approximately.
const READ_BYTES_MAX: usize = 1 << 30;

/// The number of different limits of steps. Each limit is a quarter of the next higher limit.
const STEP_CLASSES: usize = 6;

/// The maximum size of a compiled expression in bytes.
const SIZE_MAX: usize = 4 << 20;

/// A compiled regular expression.
#[derive(Debug)]
pub(crate) struct Expression {
    translated: TranslatedExpression,
    regex: Regex,
    /// The backtracking expression, compiled on demand for each limit of steps.
    stepped: [OnceLock<Option<Regex>>; STEP_CLASSES],
    /// For an expression without backtracking: the automaton that finds the end of the match at a
    /// given start. Compiled on demand.
    exact: OnceLock<Option<LongestMatch>>,
}

#[derive(Debug)]
struct LongestMatch {
    ends: DFA,
    cache: Mutex<Cache>,
    whole: Regex,
}

/// The byte ranges of a match and of its capture groups in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchSpans {
    /// The range of the whole match.
    pub(crate) all: (usize, usize),
    /// The range of each capture group; `None` if the group is not part of the match.
    pub(crate) groups: Vec<Option<(usize, usize)>>,
}

fn build(text: &str, steps_max: usize) -> Result<Regex> {
    RegexBuilder::new(text)
        .backtrack_limit(steps_max)
        .delegate_size_limit(SIZE_MAX)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim();
            Error::new(
                ErrorKind::InvalidRegularExpression,
                format!("invalid regular expression: {}", reason.trim_start_matches("error: ")),
            )
        })
}

fn failed(error: &fancy_regex::Error) -> Error {
    match error {
        fancy_regex::Error::RuntimeError(
            RuntimeError::BacktrackLimitExceeded | RuntimeError::StackOverflow,
        ) => Error::new(
            ErrorKind::StatementTooComplex,
            "the regular expression needs too many steps for one text",
        )
        .with_hint("avoid back-references and look-around, or use fewer * and +"),
        other => Error::new(
            ErrorKind::InvalidRegularExpression,
            format!("regular expression failed: {other}"),
        ),
    }
}

impl Expression {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `InvalidRegularExpression` for an invalid pattern.
    pub(crate) fn new(pattern: &str, flags: Flags) -> Result<Self> {
        let translated = translate(pattern, flags)?;
        let regex = build(&translated.text, STEPS_MAX)?;
        Ok(Self { translated, regex, stepped: Default::default(), exact: OnceLock::new() })
    }

    /// True if the text contains a match.
    ///
    /// # Errors
    /// `StatementTooComplex` for a search with too many steps.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool> {
        if self.translated.hard {
            return self.search(text, 0).map(|captures| captures.is_some());
        }
        self.regex.is_match(text).map_err(|error| failed(&error))
    }

    /// For a backtracking expression: the first match that starts at byte `from` or later.
    ///
    /// # Errors
    /// `StatementTooComplex` for a search with too many steps; the errors of
    /// `governor::check_statement`.
    fn search<'t>(&self, text: &'t str, from: usize) -> Result<Option<Captures<'t, str>>> {
        let steps = READ_BYTES_MAX / text.len().max(1);
        let class = (0..STEP_CLASSES - 1).find(|class| STEPS_MAX >> (2 * class) <= steps);
        let class = class.unwrap_or(STEP_CLASSES - 1);
        let stepped = self.stepped.get(class).and_then(|stepped| {
            let steps_max = STEPS_MAX >> (2 * class);
            stepped.get_or_init(|| build(&self.translated.text, steps_max).ok()).as_ref()
        });
        let regex = stepped.unwrap_or(&self.regex);
        match regex.captures_from_pos(text, from) {
            Err(fancy_regex::Error::RuntimeError(RuntimeError::BacktrackLimitExceeded))
                if class > 0 => {}
            found => return found.map_err(|error| failed(&error)),
        }
        let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        for start in starts.skip_while(|at| *at < from) {
            governor::check_statement()?;
            let input = RegexInput::new(text).from_pos(start).anchored(true);
            if let Some(found) = regex.captures_input(input).map_err(|error| failed(&error))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// True if the expression has capture groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.regex.captures_len() > 1
    }

    /// The first match that starts at byte `from` or later.
    ///
    /// # Errors
    /// `StatementTooComplex` for a search with too many steps.
    pub(crate) fn find(&self, text: &str, from: usize) -> Result<Option<MatchSpans>> {
        let captures = match self.translated.hard {
            true => self.search(text, from)?,
            false => self.regex.captures_from_pos(text, from).map_err(|error| failed(&error))?,
        };
        let Some(captures) = captures else { return Ok(None) };
        let Some(all) = captures.get(0) else { return Ok(None) };
        let found = MatchSpans {
            all: (all.start(), all.end()),
            groups: (1..captures.len())
                .map(|at| captures.get(at).map(|group| (group.start(), group.end())))
                .collect(),
        };
        let (start, _) = found.all;
        match self.end(text, start) {
            Some(end) if end != found.all.1 => self.within(text, start, end, found).map(Some),
            _ => Ok(Some(found)),
        }
    }

    /// The end of the longest match at `start`, or of the shortest match if the expression prefers
    /// it. `None` if the automaton is not available.
    fn end(&self, text: &str, start: usize) -> Option<usize> {
        let exact = self.exact.get_or_init(|| self.exactly()).as_ref()?;
        let input = Input::new(text)
            .range(start..)
            .anchored(Anchored::Yes)
            .earliest(self.translated.shortest);
        let mut cache = exact.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let end = exact.ends.try_search_fwd(&mut cache, &input).ok()??;
        Some(end.offset())
    }

    fn exactly(&self) -> Option<LongestMatch> {
        if self.translated.hard {
            return None;
        }
        let text = &self.translated.text;
        let ends = DFA::builder()
            .configure(DFA::config().match_kind(MatchKind::All).unicode_word_boundary(true))
            .build(text)
            .ok()?;
        let cache = Mutex::new(ends.create_cache());
        let whole = build(&format!("\\A(?:{text})\\z"), STEPS_MAX).ok()?;
        Some(LongestMatch { ends, cache, whole })
    }

    /// Returns the match from `start` to `end` with its capture groups. `found` is the match with
    /// the same start but another end.
    fn within(
        &self,
        text: &str,
        start: usize,
        end: usize,
        found: MatchSpans,
    ) -> Result<MatchSpans> {
        let exact = self.exact.get().and_then(Option::as_ref);
        let slice = text.get(start..end);
        let (Some(exact), Some(slice)) = (exact, slice) else { return Ok(found) };
        let captures = exact.whole.captures(slice).map_err(|error| failed(&error))?;
        let groups = match captures {
            Some(captures) => (1..captures.len())
                .map(|at| {
                    captures.get(at).map(|group| (group.start() + start, group.end() + start))
                })
                .collect(),
            None => found.groups,
        };
        Ok(MatchSpans { all: (start, end), groups })
    }
}

//! The SQL dialect that configures the parser.

use std::any::TypeId;

use datafusion::sql::sqlparser::{
    dialect::{Dialect, PostgreSqlDialect, Precedence},
    keywords::{self, Keyword},
    parser::{Parser, ParserError},
    tokenizer::Token,
};

/// PostgreSQL's dialect, except for the names of arguments in calls.
///
/// [`PostgreSqlDialect`] reads the name of an argument as an expression, and reads the argument
/// again if no `=>` follows. The time for nested calls then doubles with each level. PostgreSQL's
/// own grammar requires an identifier as the name.
#[derive(Debug)]
pub struct ParserDialect;

/// Keywords that can name a column only after AS, in addition to the keywords of the parser's own
/// list.
const NAMES_WITH_AS: &[Keyword] = &[
    Keyword::ARRAY,
    Keyword::CHAR,
    Keyword::CHARACTER,
    Keyword::CREATE,
    Keyword::DAY,
    Keyword::FILTER,
    Keyword::FOR,
    Keyword::GRANT,
    Keyword::HOUR,
    Keyword::MINUTE,
    Keyword::MONTH,
    Keyword::NOTNULL,
    Keyword::ON,
    Keyword::OVER,
    Keyword::OVERLAPS,
    Keyword::PRECISION,
    Keyword::SECOND,
    Keyword::TO,
    Keyword::VARYING,
    Keyword::WINDOW,
    Keyword::WITHIN,
    Keyword::WITHOUT,
    Keyword::YEAR,
];

/// Keywords that the parser does not accept as an alias of a table, but PostgreSQL does.
const TABLE_NAMES: &[Keyword] = &[
    Keyword::ANTI,
    Keyword::ASOF,
    Keyword::CLUSTER,
    Keyword::CONNECT,
    Keyword::DISTRIBUTE,
    Keyword::EXPLAIN,
    Keyword::FORMAT,
    Keyword::GLOBAL,
    Keyword::MATCH_CONDITION,
    Keyword::MATCH_RECOGNIZE,
    Keyword::MINUS,
    Keyword::OPEN,
    Keyword::OUTPUT,
    Keyword::PARTITION,
    Keyword::PIVOT,
    Keyword::PREWHERE,
    Keyword::SAMPLE,
    Keyword::SEMI,
    Keyword::SETTINGS,
    Keyword::SORT,
    Keyword::START,
    Keyword::TOP,
    Keyword::UNPIVOT,
    Keyword::VIEW,
];

impl Dialect for ParserDialect {
    // Returns PostgreSQL's type, because the parser enables PostgreSQL's syntax by the type of the
    // dialect.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PostgreSqlDialect {}.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(ch)
    }

    fn supports_unicode_string_literal(&self) -> bool {
        PostgreSqlDialect {}.supports_unicode_string_literal()
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        PostgreSqlDialect {}.is_reserved_for_identifier(kw)
    }

    fn is_column_alias(&self, kw: &Keyword, _: &mut Parser<'_>) -> bool {
        !keywords::RESERVED_FOR_COLUMN_ALIAS.contains(kw) && !NAMES_WITH_AS.contains(kw)
    }

    fn is_table_alias(&self, kw: &Keyword, parser: &mut Parser<'_>) -> bool {
        if !TABLE_NAMES.contains(kw) {
            return !keywords::RESERVED_FOR_TABLE_ALIAS.contains(kw);
        }
        let joins = matches!(kw, Keyword::ANTI | Keyword::ASOF | Keyword::GLOBAL | Keyword::SEMI);
        // After a table, the keyword begins a clause of another database.
        match &parser.peek_token_ref().token {
            Token::LParen | Token::Number(_, _) => false,
            Token::Word(next) => match next.keyword {
                Keyword::BY | Keyword::SELECT | Keyword::WITH => false,
                Keyword::JOIN => !joins,
                _ => true,
            },
            _ => true,
        }
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let is_operator = match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => true,
            Token::Word(word) => word.keyword == Keyword::OPERATOR && word.quote_style.is_none(),
            _ => false,
        };
        // Gives these operators PostgreSQL's precedence. The parser would give them the lower
        // precedence of comparisons.
        match is_operator {
            true => Some(Ok(self.prec_value(Precedence::PgOther))),
            false => PostgreSqlDialect {}.get_next_precedence(parser),
        }
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        PostgreSqlDialect {}.supports_filter_during_aggregation()
    }

    fn supports_group_by_expr(&self) -> bool {
        PostgreSqlDialect {}.supports_group_by_expr()
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(prec)
    }

    fn allow_extract_custom(&self) -> bool {
        PostgreSqlDialect {}.allow_extract_custom()
    }

    fn allow_extract_single_quotes(&self) -> bool {
        PostgreSqlDialect {}.allow_extract_single_quotes()
    }

    fn supports_create_index_with_clause(&self) -> bool {
        PostgreSqlDialect {}.supports_create_index_with_clause()
    }

    fn supports_explain_with_utility_options(&self) -> bool {
        PostgreSqlDialect {}.supports_explain_with_utility_options()
    }

    fn supports_listen_notify(&self) -> bool {
        PostgreSqlDialect {}.supports_listen_notify()
    }

    fn supports_factorial_operator(&self) -> bool {
        PostgreSqlDialect {}.supports_factorial_operator()
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        PostgreSqlDialect {}.supports_bitwise_shift_operators()
    }

    fn supports_comment_on(&self) -> bool {
        PostgreSqlDialect {}.supports_comment_on()
    }

    fn supports_load_extension(&self) -> bool {
        PostgreSqlDialect {}.supports_load_extension()
    }

    fn supports_named_fn_args_with_colon_operator(&self) -> bool {
        PostgreSqlDialect {}.supports_named_fn_args_with_colon_operator()
    }

    fn supports_empty_projections(&self) -> bool {
        PostgreSqlDialect {}.supports_empty_projections()
    }

    fn supports_nested_comments(&self) -> bool {
        PostgreSqlDialect {}.supports_nested_comments()
    }

    fn supports_string_escape_constant(&self) -> bool {
        PostgreSqlDialect {}.supports_string_escape_constant()
    }

    // PostgreSQL 15 does not accept underscores in numbers.
    fn supports_numeric_literal_underscores(&self) -> bool {
        false
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        PostgreSqlDialect {}.supports_array_typedef_with_brackets()
    }

    fn supports_geometric_types(&self) -> bool {
        PostgreSqlDialect {}.supports_geometric_types()
    }

    fn supports_set_names(&self) -> bool {
        PostgreSqlDialect {}.supports_set_names()
    }

    fn supports_alter_column_type_using(&self) -> bool {
        PostgreSqlDialect {}.supports_alter_column_type_using()
    }

    fn supports_notnull_operator(&self) -> bool {
        PostgreSqlDialect {}.supports_notnull_operator()
    }

    fn supports_interval_options(&self) -> bool {
        PostgreSqlDialect {}.supports_interval_options()
    }

    fn supports_insert_table_alias(&self) -> bool {
        PostgreSqlDialect {}.supports_insert_table_alias()
    }

    fn supports_create_table_like_parenthesized(&self) -> bool {
        PostgreSqlDialect {}.supports_create_table_like_parenthesized()
    }

    fn supports_select_wildcard_with_alias(&self) -> bool {
        PostgreSqlDialect {}.supports_select_wildcard_with_alias()
    }

    fn supports_comma_separated_trim(&self) -> bool {
        PostgreSqlDialect {}.supports_comma_separated_trim()
    }

    fn supports_xml_expressions(&self) -> bool {
        PostgreSqlDialect {}.supports_xml_expressions()
    }

    fn supports_comment_optimizer_hint(&self) -> bool {
        PostgreSqlDialect {}.supports_comment_optimizer_hint()
    }
}

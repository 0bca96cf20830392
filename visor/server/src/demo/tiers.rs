//! Shows which tiers own the rows before, during and after moves, and checks that the answers of
//! queries stay the same.

use std::{cell::Cell, time::Instant};

use futures::{StreamExt as _, future::try_join};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{
    generator::{Chance, CpuShape},
    grouped,
    queries::QUERY_TYPES,
};
use crate::sql::error::SqlError;

/// The types of queries that run repeatedly during the moves.
const ASKED: [&str; 4] =
    ["single-groupby-1-1-12", "cpu-max-all-8", "high-cpu-1", "groupby-orderby-limit"];

/// Moves the rows of `cpu` to lower tiers through `client`. Meanwhile, `asking` runs queries.
/// Prints which tiers own the rows.
///
/// # Errors
/// Errors of the server; an answer during the moves that differs from the answer before the moves.
pub async fn demonstrate(
    client: &Client,
    asking: &Client,
    shape: &CpuShape,
) -> Result<(), SqlError> {
    println!("\n4. Tiers     {}", places(asking).await?);
    let questions = questions(asking, shape).await?;
    let mut answers = 0;
    for procedure in ["flush", "compact"] {
        println!(
            "             CALL stratalog.{procedure}('cpu'), while another client runs queries"
        );
        let observations = move_by(procedure, client, asking, &questions).await?;
        if let Some(during) = observations.during {
            println!("             {during}");
        }
        println!("             {} after {:.1} s", places(asking).await?, observations.seconds);
        answers += observations.answers;
    }
    for question in &questions {
        question.ask_again(asking).await?;
    }
    println!("             {answers} answers meanwhile, the same as before and after");
    Ok(())
}

/// What was observed during a move: where rows were, and the results of the queries.
#[derive(Debug)]
struct MoveObservations {
    seconds: f64,
    answers: u64,
    /// The last observation at which several tiers owned rows.
    during: Option<Places>,
}

async fn move_by(
    procedure: &str,
    client: &Client,
    asking: &Client,
    questions: &[DemoQuery],
) -> Result<MoveObservations, SqlError> {
    let moved = Cell::new(false);
    let start = Instant::now();
    let moving = async {
        client.batch_execute(&format!("CALL stratalog.{procedure}('cpu')")).await?;
        moved.set(true);
        Ok::<_, SqlError>(start.elapsed().as_secs_f64())
    };
    let answering = async {
        let (mut answers, mut during) = (0, None);
        while !moved.get() {
            for question in questions {
                question.ask_again(asking).await?;
                answers += 1;
            }
            let places = places(asking).await?;
            if places.0.len() > 1 {
                during = Some(places);
            }
        }
        Ok((answers, during))
    };
    let (seconds, (answers, during)) = try_join(moving, answering).await?;
    Ok(MoveObservations { seconds, answers, during })
}

/// For each tier that owns rows of `cpu`: name, rows, bytes.
#[derive(Debug)]
struct Places(Vec<(String, u64, u64)>);

impl std::fmt::Display for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (tier, rows, bytes)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{tier} {} rows {} MB", grouped(*rows), bytes / 1_000_000)?;
        }
        Ok(())
    }
}

async fn places(client: &Client) -> Result<Places, SqlError> {
    let sql = "SELECT tier, sum(rows), sum(bytes) FROM stratalog.pieces WHERE name = 'cpu' \
               GROUP BY tier ORDER BY tier";
    let mut places = Places(Vec::new());
    for message in client.simple_query(sql).await? {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let number = |at: usize| -> Result<u64, SqlError> {
            let text = row.try_get(at)?.unwrap_or("0");
            text.parse().map_err(|_| SqlError::local(format!("\"{text}\" is not a number")))
        };
        let tier = row.try_get(0)?.unwrap_or("?").to_string();
        places.0.push((tier, number(1)?, number(2)?));
    }
    Ok(places)
}

/// A query, with its answer before the moves.
#[derive(Debug)]
struct DemoQuery {
    sql: String,
    answer: QueryAnswer,
}

/// The number of rows of an answer, and the sum of the checksums of the rows. The sum does not
/// depend on the order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueryAnswer {
    rows: u64,
    sum: u64,
}

impl DemoQuery {
    async fn ask_again(&self, client: &Client) -> Result<(), SqlError> {
        let now = ask(client, &self.sql).await?;
        if now == self.answer {
            return Ok(());
        }
        let (before, sql) = (self.answer, &self.sql);
        Err(SqlError::local(format!(
            "AN ANSWER CHANGED while rows moved: before {before:?}, now {now:?}\n{sql}"
        )))
    }
}

async fn questions(client: &Client, shape: &CpuShape) -> Result<Vec<DemoQuery>, SqlError> {
    let mut chance = Chance(shape.seed);
    let mut questions = Vec::new();
    for query_type in QUERY_TYPES.iter().filter(|query_type| ASKED.contains(&query_type.name)) {
        let sql = query_type.sql(shape, &mut chance);
        let answer = ask(client, &sql).await?;
        questions.push(DemoQuery { sql, answer });
    }
    Ok(questions)
}

async fn ask(client: &Client, sql: &str) -> Result<QueryAnswer, SqlError> {
    let mut stream = std::pin::pin!(client.simple_query_raw(sql).await?);
    let mut answer = QueryAnswer { rows: 0, sum: 0 };
    while let Some(message) = stream.next().await {
        let SimpleQueryMessage::Row(row) = message? else { continue };
        let mut checksum = 0;
        for at in 0..row.len() {
            let text = row.try_get(at)?.unwrap_or("NULL");
            checksum = crc32c::crc32c_append(checksum, text.as_bytes());
            checksum = crc32c::crc32c_append(checksum, b"\t");
        }
        answer.rows += 1;
        answer.sum = answer.sum.wrapping_add(u64::from(checksum));
    }
    Ok(answer)
}

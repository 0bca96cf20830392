// What every file of tests needs: connections, and a table of its own for each test.
import assert from "node:assert/strict";
import nodeTest from "node:test";
import pg from "pg";

export const AGAINST_POSTGRES = process.env.CLIENT_TESTS_AGAINST === "postgres";

// Runs until it is cancelled.
export const FOREVER =
  "SELECT count(*) FROM generate_series(1, 1000000) AS x(a), generate_series(1, 1000000) AS y(b) WHERE (a + b) % 7 = 3";

let tables = 0;

// A connection for the length of a test, with the name of a table that goes with it.
function around(body) {
  return async () => {
    const client = new pg.Client();
    await client.connect();
    const table = `node_${process.pid}_${tables++}`;
    try {
      await body(client, table);
    } finally {
      await client.end();
      const last = new pg.Client();
      await last.connect();
      await last.query(`DROP TABLE IF EXISTS ${table}`);
      await last.end();
    }
  };
}

export function test(name, body) {
  nodeTest(name, { timeout: 40_000 }, around(body));
}

// Of behaviour that PostgreSQL does not have.
export function ours(name, body) {
  nodeTest(name, { timeout: 40_000, skip: AGAINST_POSTGRES && "PostgreSQL does not have it" }, around(body));
}

export async function fails(code, step) {
  let error;
  await assert.rejects(step, (thrown) => ((error = thrown), true));
  assert.equal(error.code, code, error.stack);
  return error;
}

// Waits until a session has been in FOREVER for so long that it is past reading the statement.
export async function untilItRuns(pid) {
  const other = new pg.Client();
  await other.connect();
  const running = `SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%'
    AND clock_timestamp() - query_start > INTERVAL '200 ms' AND pid = ${pid}`;
  while ((await other.query(running)).rowCount === 0) {
    await new Promise((done) => setTimeout(done, 10));
  }
  await other.end();
}

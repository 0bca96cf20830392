// node-postgres: queries, prepared statements, types, transactions, errors, pools.
import assert from "node:assert/strict";
import pg from "pg";
import { FOREVER, fails, ours, test, untilItRuns } from "./shared.mjs";

test("several statements have several results", async (client, table) => {
  const results = await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, v INT);
    INSERT INTO ${table} VALUES ('2024-01-01', 1), ('2024-01-02', 2); SELECT sum(v) AS sum FROM ${table}`);
  assert.deepEqual(results.map((r) => [r.command, r.rowCount]), [["CREATE", null], ["INSERT", 2], ["SELECT", 1]]);
  assert.deepEqual(results[2].rows, [{ sum: "3" }]);
});

test("rows are described", async (client, table) => {
  await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, host TEXT, n NUMERIC(8,2))`);
  const { fields } = await client.query(`SELECT host, n, 1 AS one, time FROM ${table}`);
  assert.deepEqual(fields.map((f) => [f.name, f.dataTypeID, f.dataTypeSize, f.dataTypeModifier, f.format]), [
    ["host", 25, -1, -1, "text"], ["n", 1700, -1, 524294, "text"], ["one", 23, 4, -1, "text"], ["time", 1184, 8, -1, "text"]]);
  const { rows: [{ oid }] } = await client.query("SELECT $1::regclass::oid AS oid", [table]);
  assert.deepEqual(fields.map((f) => [f.tableID, f.columnID]), [[oid, 2], [oid, 3], [0, 0], [oid, 1]]);
});

test("parameters and their types", async (client, table) => {
  await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, i INT, b BIGINT, d DOUBLE PRECISION, t TEXT, o BOOLEAN,
    raw BYTEA, doc JSONB, list INT[], texts TEXT[], day DATE, id UUID, n NUMERIC(20,4))`);
  const time = new Date("2024-02-29T01:02:03.456Z");
  const sent = [time, 1, "9007199254740993", 0.1, "it's \u65e5\u672c", true, Buffer.from([0, 255, 92]), { a: [1, null] },
    [1, null, 3], ["a", 'with "quotes" and \\', "NULL", null], "2024-02-29", "6f1c1d2e-3b6a-4a53-9f0e-0d5c3a4b7e11", "12345678901234.5678"];
  await client.query(`INSERT INTO ${table} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`, sent);
  for (const rowMode of [undefined, "array"]) {
    const text = `SELECT * FROM ${table} WHERE i = $1 AND t = $2 AND time <= $3`;
    const { rows: [row] } = await client.query({ text, values: [1, sent[4], time], rowMode });
    const values = Object.values(row);
    values[10] = `${values[10].getFullYear()}-0${values[10].getMonth() + 1}-${values[10].getDate()}`;
    assert.deepEqual(values, sent);
  }
  const nulls = await client.query(`INSERT INTO ${table} SELECT $1, $2, $3, $4, $5 RETURNING i, b, d, t`, [time, null, null, null, undefined]);
  assert.deepEqual(nulls.rows, [{ i: null, b: null, d: null, t: null }]);
});

test("types of parameters are inferred", async (client, table) => {
  await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, v INT)`);
  await client.query(`INSERT INTO ${table} SELECT to_timestamp(n), n FROM generate_series(1, 10) AS g(n)`);
  const one = async (text, values) => Object.values((await client.query(text, values)).rows[0])[0];
  assert.equal(await one("SELECT $1 + 1", ["41"]), 42);
  assert.equal(await one(`SELECT count(*) FROM ${table} WHERE v = ANY ($1)`, [[1, 2, 99]]), "2");
  assert.equal(await one(`SELECT v FROM ${table} ORDER BY time LIMIT $1 OFFSET $2`, [1, 4]), 5);
  assert.equal(await one("SELECT upper($1)", ["loud"]), "LOUD");
  assert.equal(await one("SELECT $1::text || $2", ["a", "b"]), "ab");
  assert.equal(await one(`SELECT count(*) FROM ${table} WHERE time > $1 AND time < $2::timestamptz + $3`,
    ["1970-01-01 00:00:02Z", new Date(5000), "2 seconds"]), "4");
  await fails("22P02", () => client.query(`SELECT v FROM ${table} WHERE v = $1`, ["seven"]));
});

test("prepared statements have names", async (client) => {
  const query = { name: "adds", text: "SELECT $1::int + $2 AS sum" };
  for (let n = 0; n < 10; n++) {
    assert.deepEqual((await client.query({ ...query, values: [n, 1] })).rows, [{ sum: n + 1 }]);
  }
  const { rows } = await client.query("SELECT name, statement FROM pg_prepared_statements");
  assert.deepEqual(rows, [{ name: "adds", statement: query.text }]);
});

test("rows in binary", async (client) => {
  // The driver takes binary values for UTF-8: only bytes below 128 reach it whole.
  const text = `SELECT $1::int AS i, $2::bool AS b, $3::text AS t, $4::float8 AS d, $5::timestamptz AS z, $6::bigint AS big,
    $7::int[] AS list, $8::smallint AS s`;
  const values = [7, true, "text", 2, new Date("2000-01-01T00:00:00Z"), "1099511627776", [1, 2], 3];
  const { rows } = await client.query({ text, values, binary: true });
  const [{ z, ...others }] = rows;
  assert.deepEqual(others, { i: 7, b: true, t: "text", d: 2, big: "1099511627776", list: [1, 2], s: 3 });
  assert.equal(z.getTime(), Date.UTC(2000, 0, 1));
});

test("transactions", async (client, table) => {
  const count = async (who) => (await who.query(`SELECT count(*)::int AS n FROM ${table}`)).rows[0].n;
  const insert = `INSERT INTO ${table} VALUES ('2024-01-01', $1)`;
  const other = new pg.Client();
  await other.connect();
  try {
    await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, v INT)`);
    await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    await client.query(insert, [1]);
    await client.query("SAVEPOINT before");
    await client.query(insert, [2]);
    await fails("22012", () => client.query("SELECT 1/0"));
    await fails("25P02", () => client.query("SELECT 1"));
    await client.query("ROLLBACK TO before");
    await client.query(insert, [3]);
    await client.query("RELEASE before");
    assert.deepEqual([await count(client), await count(other)], [2, 0]);
    assert.equal((await client.query("COMMIT")).command, "COMMIT");
    assert.equal(await count(other), 2);
    await client.query("BEGIN");
    await client.query(insert, [4]);
    await client.query("ROLLBACK");
    assert.equal(await count(other), 2);
    await client.query("BEGIN READ ONLY");
    await fails("25006", () => client.query(insert, [5]));
    assert.equal((await client.query("COMMIT")).command, "ROLLBACK");
  } finally {
    await other.end();
  }
});

test("errors have all their fields", async (client, table) => {
  await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, host TEXT NOT NULL, PRIMARY KEY (host, time))`);
  const insert = `INSERT INTO ${table} VALUES ('2024-01-01', $1)`;
  await client.query(insert, ["a"]);
  const twice = await fails("23505", () => client.query(insert, ["a"]));
  assert.deepEqual([twice.severity, twice.schema, twice.table, twice.constraint], ["ERROR", "public", table, `${table}_pkey`]);
  assert.match(twice.detail, /already exists/);
  const missing = await fails("23502", () => client.query(insert, [null]));
  assert.deepEqual([missing.schema, missing.table, missing.column], ["public", table, "host"]);
  assert.equal((await fails("42703", () => client.query(`SELECT hots FROM ${table}`))).position, "8");
  assert.equal((await fails("42601", () => client.query("SELECT 1 FROM WHERE"))).position, "15");
});

test("notices are told", async (client) => {
  const notices = [];
  client.on("notice", (notice) => notices.push([notice.severity, notice.code, notice.message]));
  await client.query("DROP TABLE IF EXISTS node_that_is_not_there");
  assert.deepEqual(notices, [["NOTICE", "00000", 'table "node_that_is_not_there" does not exist, skipping']]);
});

ours("LISTEN and UPDATE are refused clearly", async (client, table) => {
  await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, v INT)`);
  for (const sql of ["LISTEN channel", `UPDATE ${table} SET v = 1`, `DELETE FROM ${table} WHERE v = 1`, "CREATE TEMP TABLE x (time TIMESTAMPTZ)"]) {
    assert.ok((await fails("0A000", () => client.query(sql))).message.length > 20);
  }
});

test("a statement is cancelled, and one runs out of time", async (client) => {
  const running = fails("57014", () => client.query(FOREVER));
  await untilItRuns(client.processID);
  const other = new pg.Client();
  await other.connect();
  assert.deepEqual((await other.query("SELECT pg_cancel_backend($1) AS done", [client.processID])).rows, [{ done: true }]);
  await other.end();
  await running;
  await client.query("SET statement_timeout = 300");
  await fails("57014", () => client.query(FOREVER));
  assert.deepEqual((await client.query("SHOW statement_timeout")).rows, [{ statement_timeout: "300ms" }]);
});

test("a pool", async (client, table) => {
  await client.query(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, v INT)`);
  const pool = new pg.Pool({ max: 4, application_name: "pooled", statement_timeout: 20_000, idle_in_transaction_session_timeout: 20_000 });
  try {
    const sums = await Promise.all(Array.from({ length: 40 }, async (_, n) => {
      await pool.query(`INSERT INTO ${table} VALUES (to_timestamp($1), $2)`, [n, n]);
      return (await pool.query("SELECT $1::int * 2 AS twice, current_setting('application_name') AS name", [n])).rows[0];
    }));
    assert.deepEqual(sums, Array.from({ length: 40 }, (_, n) => ({ twice: 2 * n, name: "pooled" })));
    assert.equal((await pool.query(`SELECT sum(v)::int AS sum FROM ${table}`)).rows[0].sum, 780);
    assert.ok(pool.totalCount <= 4);
  } finally {
    await pool.end();
  }
});

test("settings at connect, and a database that is not there", async () => {
  const opened = new pg.Client({ options: "-c DateStyle=ISO -c TimeZone=Asia/Tokyo", application_name: "tests" });
  await opened.connect();
  const { rows } = await opened.query("SELECT current_setting('TimeZone') AS zone, current_setting('application_name') AS name");
  await opened.end();
  assert.deepEqual(rows, [{ zone: "Asia/Tokyo", name: "tests" }]);
  await fails("3D000", () => new pg.Client({ database: "node_no_database" }).connect());
});

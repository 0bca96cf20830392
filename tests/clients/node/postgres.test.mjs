// postgres.js: everything is prepared and pipelined there.
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import postgres from "postgres";
import { FOREVER, fails, ours, test, untilItRuns } from "./shared.mjs";

// With a pool of postgres.js for the length of a test.
function using(settings, body) {
  return async (client, table) => {
    const sql = postgres({ onnotice: () => {}, ...settings });
    try {
      await body(sql, table, client);
    } finally {
      await sql.end({ timeout: 5 });
    }
  };
}

test("values in both directions", using({}, async (sql, table) => {
  await sql`CREATE TABLE ${sql(table)} (time TIMESTAMPTZ NOT NULL, i INT, b BIGINT, d DOUBLE PRECISION, t TEXT, o BOOLEAN,
    raw BYTEA, doc JSONB, list INT[], texts TEXT[], n NUMERIC(20,4))`;
  const row = { time: new Date(1700000000123), i: 7, b: "9007199254740993", d: 0.1, t: "it's", o: false, raw: Buffer.from([0, 255]),
    doc: { a: [1, null] }, list: [1, 2], texts: ["a", 'b"', "NULL"], n: "12345678901234.5678" };
  assert.equal((await sql`INSERT INTO ${sql(table)} ${sql({ ...row, doc: sql.json(row.doc) })}`).count, 1);
  const found = await sql`SELECT * FROM ${sql(table)} WHERE time = ${row.time}
    AND i IN ${sql([7, 8])} AND t = ANY (${["it's"]}) AND d = ${0.1} LIMIT ${1}`;
  assert.deepEqual({ ...found[0], raw: Buffer.from(found[0].raw) }, row);
  assert.deepEqual(found.columns.map((c) => c.type), [1184, 23, 20, 701, 25, 16, 17, 3802, 1007, 1009, 1700]);
  assert.deepEqual([found.command, found.count], ["SELECT", 1]);
}));

test("many rows in one INSERT", using({}, async (sql, table) => {
  await sql`CREATE TABLE ${sql(table)} (time TIMESTAMPTZ NOT NULL, v INT)`;
  const rows = Array.from({ length: 2000 }, (_, n) => ({ time: new Date(n * 1000), v: n }));
  const returned = await sql`INSERT INTO ${sql(table)} ${sql(rows, "time", "v")} RETURNING v`;
  assert.deepEqual(returned.map((r) => r.v), rows.map((r) => r.v));
}));

test("statements are prepared once, or not at all", async (client, table) => {
  for (const prepare of [true, false]) {
    await using({ prepare, max: 1 }, async (sql) => {
      for (let n = 0; n < 5; n++) assert.deepEqual([...(await sql`SELECT ${n}::int * 2 AS twice`)], [{ twice: 2 * n }]);
      const [{ count }] = await sql`SELECT count(*)::int FROM pg_prepared_statements WHERE statement LIKE '%twice%'`;
      // The one that counts has that word, too.
      assert.equal(count, prepare ? 2 : 0);
    })(client, table);
  }
});

test("queries at once on one connection", using({ max: 1 }, async (sql) => {
  const results = await Promise.allSettled(Array.from({ length: 30 }, (_, n) => sql`SELECT ${60}::int / ${n % 10}::int AS q`));
  results.forEach((result, n) => {
    if (n % 10 === 0) assert.equal(result.reason.code, "22012");
    else assert.equal(result.value[0].q, Math.floor(60 / (n % 10)));
  });
}));

test("transactions and savepoints", using({}, async (sql, table) => {
  await sql`CREATE TABLE ${sql(table)} (time TIMESTAMPTZ NOT NULL, v INT)`;
  const insert = (tx, v) => tx`INSERT INTO ${tx(table)} VALUES (now(), ${v})`;
  await sql.begin("isolation level repeatable read", async (tx) => {
    await insert(tx, 1);
    await fails("22012", () => tx.savepoint(async (inner) => {
      await insert(inner, 2);
      await inner`SELECT 1/0`;
    }));
    await tx.savepoint((inner) => insert(inner, 3));
  });
  await assert.rejects(sql.begin(async (tx) => {
    await insert(tx, 4);
    throw new Error("changed our mind");
  }), /changed/);
  assert.deepEqual((await sql`SELECT v FROM ${sql(table)} ORDER BY v`).map((r) => r.v), [1, 3]);
  await fails("25006", () => sql.begin("read only", (tx) => insert(tx, 5)));
}));

test("cursors", using({ max: 1 }, async (sql) => {
  const sizes = [];
  for await (const rows of sql`SELECT n FROM generate_series(1, 25) AS g(n)`.cursor(10)) sizes.push(rows.length);
  assert.deepEqual(sizes, [10, 10, 5]);
  await sql`SELECT n FROM generate_series(1, 1000000) AS g(n)`.cursor(5, () => sql.CLOSE);
  let seen = 0;
  await sql`SELECT n FROM generate_series(1, 500) AS g(n)`.forEach(() => seen++);
  assert.equal(seen, 500);
}));

test("COPY by streams", using({ max: 2 }, async (sql, table) => {
  await sql`CREATE TABLE ${sql(table)} (time TIMESTAMPTZ NOT NULL, v INT)`;
  const lines = Array.from({ length: 5000 }, (_, n) => `${new Date(n * 1000).toISOString()}\t${n}\n`);
  await pipeline(Readable.from(lines), await sql`COPY ${sql(table)} FROM STDIN`.writable());
  assert.deepEqual([...(await sql`SELECT count(*)::int AS n, sum(v)::int AS s FROM ${sql(table)}`)], [{ n: 5000, s: 12497500 }]);
  let text = "";
  for await (const chunk of await sql`COPY (SELECT v FROM ${sql(table)} ORDER BY time LIMIT 3) TO STDOUT`.readable()) text += chunk;
  assert.equal(text, "0\n1\n2\n");
}));

test("described statements", using({}, async (sql, table) => {
  await sql`CREATE TABLE ${sql(table)} (time TIMESTAMPTZ NOT NULL, v INT, host TEXT)`;
  const described = await sql`SELECT v, host FROM ${sql(table)} WHERE time > ${null} AND v = ${null} LIMIT ${null}`.describe();
  assert.deepEqual(described.types, [1184, 23, 20]);
  assert.deepEqual(described.columns.map((c) => [c.name, c.type, c.number]), [["v", 23, 2], ["host", 25, 3]]);
}));

test("simple and unsafe queries, and files of statements", using({}, async (sql, table) => {
  const results = await sql.unsafe(`CREATE TABLE ${table} (time TIMESTAMPTZ NOT NULL, v INT);
    INSERT INTO ${table} VALUES ('2024-01-01', 1); SELECT v FROM ${table}`);
  assert.deepEqual(results.map((r) => r.command), ["INSERT", "SELECT"]);
  assert.deepEqual([...(await sql.unsafe("SELECT $1::int AS one", [1], { prepare: true }))], [{ one: 1 }]);
  assert.deepEqual(await sql`SELECT 1, 'two'`.values().then((rows) => [...rows]), [[1, "two"]]);
}));

test("a query is cancelled", using({ max: 1 }, async (sql) => {
  const [{ pid }] = await sql`SELECT pg_backend_pid() AS pid`;
  const running = sql.unsafe(FOREVER);
  const ended = fails("57014", () => running);
  await untilItRuns(pid);
  running.cancel();
  await ended;
  assert.deepEqual([...(await sql`SELECT 1 AS one`)], [{ one: 1 }]);
}));

test("errors and notices", async (client, table) => {
  const notices = [];
  await using({ onnotice: (notice) => notices.push(notice) }, async (sql) => {
    const error = await fails("42703", () => sql`SELECT nothing FROM (SELECT 1 AS one) x`);
    assert.deepEqual([error.severity, error.position], ["ERROR", "8"]);
    await sql`DROP TABLE IF EXISTS node_that_is_not_there`;
    assert.deepEqual(notices.map((n) => [n.severity, n.code]), [["NOTICE", "00000"]]);
    await fails("22P02", () => sql`SELECT 'x'::int`.simple());
  })(client, table);
});

const SETTINGS = { application_name: "postgres.js tests", TimeZone: "Asia/Tokyo", statement_timeout: 20000 };

test("what a connection is told at its start", using({ connection: SETTINGS }, async (sql) => {
  const [told] = await sql`SELECT current_setting('application_name') AS a, current_setting('TimeZone') AS z`;
  assert.deepEqual({ ...told }, { a: "postgres.js tests", z: "Asia/Tokyo" });
  await sql`SELECT 1`;
  assert.equal(sql.parameters.TimeZone, "Asia/Tokyo");
}));

test("connections are reserved", using({ max: 2 }, async (sql) => {
  const reserved = await sql.reserve();
  await reserved`SET application_name = 'reserved'`;
  assert.equal((await reserved`SHOW application_name`)[0].application_name, "reserved");
  reserved.release();
}));

ours("LISTEN is refused clearly", using({}, async (sql) => {
  assert.match((await fails("0A000", () => sql.listen("channel", () => {}))).message, /LISTEN/);
  await sql.notify("channel", "x").then(() => assert.fail("NOTIFY is accepted"), (error) => assert.ok(error.code));
}));

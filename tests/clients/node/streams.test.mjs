// pg-cursor, pg-query-stream and pg-copy-streams, over node-postgres.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { from, to } from "pg-copy-streams";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import { fails, test } from "./shared.mjs";

const NUMBERS = "SELECT n FROM generate_series(1, $1::int) AS g(n) ORDER BY n";
const columns = "(time TIMESTAMPTZ NOT NULL, host TEXT, v DOUBLE PRECISION)";

function* lines(count) {
  for (let n = 0; n < count; n++) yield `${new Date(n * 1000).toISOString()}\thost ${n % 7}\t${n}.5\n`;
}

async function text(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test("a cursor reads some rows at a time", async (client) => {
  const cursor = client.query(new Cursor(NUMBERS, [25]));
  const sizes = [];
  let last;
  for (let rows; (rows = await cursor.read(10)).length > 0; last = rows.at(-1).n) sizes.push(rows.length);
  assert.deepEqual([sizes, last], [[10, 10, 5], 25]);
  await cursor.close();
  assert.deepEqual((await client.query("SELECT 1 AS one")).rows, [{ one: 1 }]);
});

test("a cursor is closed before its end", async (client) => {
  const cursor = client.query(new Cursor(NUMBERS, [1000000], { rowMode: "array" }));
  assert.deepEqual(await cursor.read(2), [[1], [2]]);
  await cursor.close();
  assert.deepEqual((await client.query("SELECT 2 AS two")).rows, [{ two: 2 }]);
});

test("a cursor over an error", async (client) => {
  const cursor = client.query(new Cursor("SELECT 10 / (5 - n) AS q FROM generate_series(1, 9) AS g(n)", []));
  await fails("22012", async () => {
    while ((await cursor.read(2)).length > 0);
  });
  await cursor.close();
  assert.deepEqual((await client.query("SELECT 3 AS three")).rows, [{ three: 3 }]);
});

test("a stream of rows", async (client) => {
  let sum = 0;
  for await (const { n } of client.query(new QueryStream(NUMBERS, [20000], { batchSize: 300 }))) sum += n;
  assert.equal(sum, 200010000);
  for await (const { n } of client.query(new QueryStream(NUMBERS, [1000000], { batchSize: 10 }))) if (n === 25) break;
  assert.deepEqual((await client.query("SELECT 4 AS four")).rows, [{ four: 4 }]);
});

test("COPY in and out", async (client, table) => {
  await client.query(`CREATE TABLE ${table} ${columns}`);
  const into = client.query(from(`COPY ${table} FROM STDIN`));
  await pipeline(Readable.from(lines(20000)), into);
  assert.equal(into.rowCount, 20000);
  assert.deepEqual((await client.query(`SELECT count(*), sum(v), count(DISTINCT host) AS hosts FROM ${table}`)).rows,
    [{ count: "20000", sum: 200000000, hosts: "7" }]);
  const out = client.query(to(`COPY (SELECT host, v FROM ${table} ORDER BY time LIMIT 2) TO STDOUT WITH (FORMAT csv, HEADER)`));
  assert.equal((await text(out)).toString(), "host,v\nhost 0,0.5\nhost 1,1.5\n");
  assert.equal((await text(client.query(to(`COPY ${table} TO STDOUT`)))).toString().split("\n").length, 20001);
});

test("COPY in binary", async (client, table) => {
  await client.query(`CREATE TABLE ${table} ${columns}`);
  await pipeline(Readable.from(lines(100)), client.query(from(`COPY ${table} FROM STDIN`)));
  const rows = await text(client.query(to(`COPY ${table} TO STDOUT (FORMAT binary)`)));
  await pipeline(Readable.from([rows]), client.query(from(`COPY ${table} FROM STDIN (FORMAT binary)`)));
  assert.deepEqual((await client.query(`SELECT count(*), count(DISTINCT v) AS v FROM ${table}`)).rows, [{ count: "200", v: "100" }]);
});

test("a COPY that fails stores nothing", async (client, table) => {
  await client.query(`CREATE TABLE ${table} ${columns}`);
  const into = client.query(from(`COPY ${table} FROM STDIN`));
  const error = await fails("22P02", () => pipeline(Readable.from([...lines(10), "2024-01-01\ta\tnot a number\n"]), into));
  assert.match(error.where, /line 11/);
  const givenUp = client.query(from(`COPY ${table} FROM STDIN`));
  givenUp.write("2024-01-01\ta\t1\n");
  await assert.rejects(once(givenUp.destroy(new Error("changed our mind")), "close"), /changed our mind/);
  assert.deepEqual((await client.query(`SELECT count(*) FROM ${table}`)).rows, [{ count: "0" }]);
});

test("COPY in a transaction", async (client, table) => {
  await client.query(`CREATE TABLE ${table} ${columns}`);
  for (const end of ["ROLLBACK", "COMMIT"]) {
    await client.query("BEGIN");
    await pipeline(Readable.from(lines(5)), client.query(from(`COPY ${table} (time, host, v) FROM STDIN`)));
    await client.query(end);
    assert.deepEqual((await client.query(`SELECT count(*) FROM ${table}`)).rows, [{ count: end === "COMMIT" ? "5" : "0" }]);
  }
});

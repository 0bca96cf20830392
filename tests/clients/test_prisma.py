"""Prisma's introspection, `prisma db pull`, by its own engine."""

import pytest

import languages

SCHEMA = "prisma_pull"
MODELS = """
model cpu {
  time       DateTime @db.Timestamptz(6)
  host       String
  usage      Float?   @default(1.5)
  cost       Decimal? @db.Decimal(8, 2)
  cores      Int      @default(4)
  ticks      BigInt?
  level      Int?     @db.SmallInt
  share      Float?   @db.Real
  on         Boolean? @default(true)
  day        DateTime? @db.Date
  clock      DateTime? @db.Time(6)
  tags       String[]
  readings   Float[]
  raw        Bytes?
  id         String? @db.Uuid
  doc        Json?
  Odd_name   String? @map("Odd name")

  @@id([host, time])
}
"""


def squeezed(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.fixture
def pulled(server, scratch, connection):
    """Prisma's output for a schema with two tables."""
    connection.execute(f"CREATE SCHEMA {SCHEMA}")
    connection.execute(
        f"CREATE TABLE {SCHEMA}.cpu (time TIMESTAMPTZ(6) NOT NULL, host TEXT NOT NULL, usage DOUBLE PRECISION DEFAULT 1.5, "
        "cost NUMERIC(8,2), cores INT NOT NULL DEFAULT 4, ticks BIGINT, level SMALLINT, share REAL, \"on\" BOOLEAN DEFAULT true, "
        "day DATE, clock TIME, tags TEXT[], readings DOUBLE PRECISION[], raw BYTEA, id UUID, doc JSONB, \"Odd name\" TEXT, "
        "PRIMARY KEY (host, time))")
    connection.execute(f"CREATE TABLE {SCHEMA}.plain (time TIMESTAMP(6) NOT NULL, v INT)")
    connection.execute(f"COMMENT ON TABLE {SCHEMA}.cpu IS 'processors'")
    place = languages.laid_out("prisma", scratch)
    # Introspection runs none of Prisma's downloaded engines, but checks that they exist.
    yield languages.run(
        ["node", "node_modules/prisma/build/index.js", "db", "pull", "--print"], server, cwd=place, PULLED_SCHEMA=SCHEMA,
        CHECKPOINT_DISABLE="1", PRISMA_HIDE_UPDATE_MESSAGE="1", PRISMA_QUERY_ENGINE_LIBRARY=str(place / "package.json"))
    for name in ("cpu", "plain"):
        connection.execute(f"DROP TABLE {SCHEMA}.{name}")
    connection.execute(f"DROP SCHEMA {SCHEMA}")


def test_tables_become_models(pulled):
    out, errors = pulled
    assert "model cpu {" in out, out + errors
    model = out[out.index("model cpu {"):]
    assert squeezed(model[:model.index("\n}") + 2]) == squeezed(MODELS)
    # Without a key Prisma cannot address a row.
    assert "does not contain a valid unique identifier" in out and "model plain {" in out and "@@ignore" in out

"""A search for wrong answers: random statements, compared with PostgreSQL and DuckDB, until the time
is over."""

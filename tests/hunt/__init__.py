"""A search for wrong answers: random statements against PostgreSQL and DuckDB, until the time is over."""

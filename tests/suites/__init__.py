"""Test suites of drivers and peers, from their own packages, compared with PostgreSQL."""

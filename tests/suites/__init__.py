"""Test suites of drivers and peers, from their own packages, beside PostgreSQL."""

// Package clients tests pgx and lib/pq, unmodified. The server is told by libpq's variables.
package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

// Runs until it is cancelled.
const forever = `SELECT count(*) FROM generate_series(1, 1000000) AS x(a), generate_series(1, 1000000) AS y(b) WHERE (a + b) % 7 = 3`

var ctx = context.Background()

// ours ends a test of behaviour that PostgreSQL does not have.
func ours(t *testing.T) {
	if os.Getenv("CLIENT_TESTS_AGAINST") == "postgres" {
		t.Skip("PostgreSQL does not have it")
	}
}

// connect opens a connection of pgx for the length of a test; settings are options such as "name=value".
func connect(t *testing.T, settings ...string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, strings.Join(settings, " "))
	must(t, err)
	t.Cleanup(func() { conn.Close(ctx) })
	return conn
}

// table makes a table for the length of a test: columns after the time.
func table(t *testing.T, columns string) string {
	t.Helper()
	name := "go_" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "_"))
	conn := connect(t)
	_, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE %s (time TIMESTAMPTZ NOT NULL, %s)", name, columns))
	must(t, err)
	t.Cleanup(func() {
		conn := connect(t)
		conn.Exec(ctx, "DROP TABLE "+name)
		conn.Close(ctx)
	})
	return name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, expected, found any) {
	t.Helper()
	if !reflect.DeepEqual(expected, found) {
		t.Fatalf("expected %#v, found %#v", expected, found)
	}
}

// fails takes the error that a step must end with, of either driver.
func fails(t *testing.T, sqlstate string, err error) {
	t.Helper()
	var ofPgx *pgconn.PgError
	var ofPq *pq.Error
	switch {
	case errors.As(err, &ofPgx) && ofPgx.Code == sqlstate && ofPgx.Message != "":
	case errors.As(err, &ofPq) && string(ofPq.Code) == sqlstate && ofPq.Message != "":
	default:
		t.Fatalf("expected SQLSTATE %s, found %v", sqlstate, err)
	}
}

// value is what a query answers in one row and column.
func value[T any](t *testing.T, conn interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, sql string, arguments ...any) T {
	t.Helper()
	rows, err := conn.Query(ctx, sql, arguments...)
	must(t, err)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	must(t, err)
	return found
}

// untilItRuns waits until a session has been in `forever` for so long that it is past reading the statement.
func untilItRuns(t *testing.T, pid uint32) {
	conn := connect(t)
	running := `SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%'
		AND clock_timestamp() - query_start > INTERVAL '200 ms' AND pid = ` + fmt.Sprint(pid)
	for !value[bool](t, conn, running) {
		time.Sleep(10 * time.Millisecond)
	}
}

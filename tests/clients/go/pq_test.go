package clients

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

// open gives a pool of database/sql over lib/pq for the length of a test.
func open(t *testing.T, settings string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", "sslmode=disable "+settings)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func scalar[T any](t *testing.T, db interface {
	QueryRow(string, ...any) *sql.Row
}, text string, arguments ...any) T {
	t.Helper()
	var found T
	must(t, db.QueryRow(text, arguments...).Scan(&found))
	return found
}

func TestPqStatements(t *testing.T) {
	name := table(t, "host TEXT, v INT, d DOUBLE PRECISION, ok BOOLEAN, raw BYTEA, n NUMERIC(20,4), day DATE")
	at := time.Date(2024, 2, 29, 1, 2, 3, 456789000, time.UTC)
	for n, settings := range []string{"", "binary_parameters=yes"} {
		db := open(t, settings)
		must(t, db.Ping())
		insert, err := db.Prepare("INSERT INTO " + name + " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
		must(t, err)
		for range 3 {
			done, err := insert.Exec(at, "it's", n, 0.1, true, []byte{0, 255}, "12345678901234.5678", "2024-02-29")
			must(t, err)
			count, _ := done.RowsAffected()
			equal(t, int64(1), count)
		}
		must(t, insert.Close())
		var time_, day time.Time
		var host, number string
		var v int64
		var d float64
		var ok bool
		var raw []byte
		row := db.QueryRow("SELECT * FROM "+name+" WHERE v = $1 AND time = $2 AND host = $3 LIMIT $4", n, at, "it's", 1)
		must(t, row.Scan(&time_, &host, &v, &d, &ok, &raw, &number, &day))
		equal(t, []any{at, "it's", int64(n), 0.1, true, []byte{0, 255}, "12345678901234.5678", "2024-02-29"},
			[]any{time_.UTC(), host, v, d, ok, raw, number, day.Format(time.DateOnly)})
		equal(t, "three", scalar[string](t, db, "INSERT INTO "+name+" (time, host) VALUES (now(), 'three') RETURNING host"))
	}
}

func TestPqColumnTypes(t *testing.T) {
	name := table(t, "host TEXT, n NUMERIC(8,2), list INT[]")
	rows, err := open(t, "").Query("SELECT * FROM " + name)
	must(t, err)
	defer rows.Close()
	types, err := rows.ColumnTypes()
	must(t, err)
	var told []string
	for _, column := range types {
		precision, scale, _ := column.DecimalSize()
		told = append(told, fmt.Sprint(column.Name(), " ", column.DatabaseTypeName(), " ", precision, " ", scale))
	}
	equal(t, []string{"time TIMESTAMPTZ 0 0", "host TEXT 0 0", "n NUMERIC 8 2", "list _INT4 0 0"}, told)
}

func TestPqNullsAndArrays(t *testing.T) {
	name := table(t, "i INT, s TEXT, f DOUBLE PRECISION, b BOOLEAN, list BIGINT[], texts TEXT[], flags BOOLEAN[], numbers DOUBLE PRECISION[]")
	db := open(t, "")
	insert := "INSERT INTO " + name + " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	_, err := db.Exec(insert, first, sql.NullInt64{}, sql.NullString{}, sql.NullFloat64{}, sql.NullBool{}, nil, nil, pq.Array([]bool(nil)), nil)
	must(t, err)
	texts := []string{"a", "", `with "quotes", {braces} and \`, "NULL"}
	_, err = db.Exec(insert, second, sql.NullInt64{Int64: 1, Valid: true}, "s", 0.5, true,
		pq.Array([]int64{1, -3}), pq.Array(texts), pq.Array([]bool{true, false}), pq.Array([]float64{0.5}))
	must(t, err)
	var i sql.NullInt64
	var s sql.NullString
	var f sql.NullFloat64
	var b sql.NullBool
	var list []int64
	var found []string
	var flags []bool
	var numbers []float64
	columns := "SELECT i, s, f, b, list, texts, flags, numbers FROM " + name + " WHERE time = $1"
	must(t, db.QueryRow(columns, first).Scan(&i, &s, &f, &b, pq.Array(&list), pq.Array(&found), pq.Array(&flags), pq.Array(&numbers)))
	equal(t, false, i.Valid || s.Valid || f.Valid || b.Valid || list != nil || found != nil || flags != nil || numbers != nil)
	must(t, db.QueryRow(columns, second).Scan(&i, &s, &f, &b, pq.Array(&list), pq.Array(&found), pq.Array(&flags), pq.Array(&numbers)))
	equal(t, []any{int64(1), "s", 0.5, true, []int64{1, -3}, texts, []bool{true, false}, []float64{0.5}},
		[]any{i.Int64, s.String, f.Float64, b.Bool, list, found, flags, numbers})
	equal(t, int64(2), scalar[int64](t, db, "SELECT count(*) FROM "+name+" WHERE i = ANY ($1) OR i IS NULL", pq.Array([]int64{1, 5})))
}

func TestPqCopyIn(t *testing.T) {
	name := table(t, "host TEXT, v DOUBLE PRECISION")
	db := open(t, "")
	for _, end := range []string{"commit", "rollback", "fail"} {
		tx, err := db.Begin()
		must(t, err)
		copy, err := tx.Prepare(pq.CopyIn(name, "time", "host", "v"))
		must(t, err)
		for n := range 5000 {
			_, err = copy.Exec(time.Unix(int64(n), 0), "tab\t, newline\n and \\", float64(n))
			must(t, err)
		}
		if end == "fail" {
			_, err = copy.Exec(time.Unix(1, 0), nil, "not a number")
			must(t, err)
			_, err = copy.Exec()
			fails(t, "22P02", err)
			must(t, tx.Rollback())
			continue
		}
		done, err := copy.Exec()
		must(t, err)
		count, _ := done.RowsAffected()
		equal(t, int64(5000), count)
		must(t, copy.Close())
		equal(t, true, scalar[int64](t, tx, "SELECT count(*) FROM "+name) >= 5000)
		if end == "commit" {
			must(t, tx.Commit())
		} else {
			must(t, tx.Rollback())
		}
	}
	equal(t, int64(5000), scalar[int64](t, db, "SELECT count(*) FROM "+name+" WHERE host = $1", "tab\t, newline\n and \\"))
}

func TestPqTransactions(t *testing.T) {
	name := table(t, "v INT")
	for _, driver := range []string{"postgres", "pgx"} {
		db, err := sql.Open(driver, "sslmode=disable")
		must(t, err)
		defer db.Close()
		count := func() int64 { return scalar[int64](t, db, "SELECT count(*) FROM "+name) }
		before := count()
		insert := "INSERT INTO " + name + " VALUES (now(), $1)"
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			must(t, err)
			_, err = tx.Exec(insert, 1)
			must(t, err)
			equal(t, before, count())
			must(t, tx.Rollback())
		}
		tx, err := db.Begin()
		must(t, err)
		_, err = tx.Exec(insert, 2)
		must(t, err)
		must(t, tx.Commit())
		equal(t, before+1, count())
		tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		must(t, err)
		_, err = tx.Exec(insert, 3)
		fails(t, "25006", err)
		_, err = tx.Exec("SELECT 1")
		fails(t, "25P02", err)
		must(t, tx.Rollback())
	}
}

func TestPqAContextCancels(t *testing.T) {
	conn, err := open(t, "").Conn(ctx)
	must(t, err)
	defer conn.Close()
	var pid uint32
	must(t, conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid))
	cancelled, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		_, err := conn.ExecContext(cancelled, forever)
		ended <- err
	}()
	untilItRuns(t, pid)
	cancel()
	err = <-ended
	var told *pq.Error
	if !errors.Is(err, context.Canceled) && !(errors.As(err, &told) && told.Code == "57014") {
		t.Fatal(err)
	}
}

func TestPqErrorsAndListening(t *testing.T) {
	db := open(t, "application_name=tests search_path=public")
	equal(t, "tests", scalar[string](t, db, "SHOW application_name"))
	_, err := db.Exec("SELECT 1; SELECT nothing")
	fails(t, "42703", err)
	_, err = db.Exec("SELEC 1")
	fails(t, "42601", err)
	_, err = db.Exec("SELECT * FROM go_that_is_not_there WHERE v = $1", 1)
	fails(t, "42P01", err)
	fails(t, "3D000", open(t, "dbname=go_no_database").Ping())
	ours(t)
	listener, err := pq.NewListenerConn("sslmode=disable", make(chan *pq.Notification, 1))
	must(t, err)
	defer listener.Close()
	_, err = listener.Listen("channel")
	fails(t, "0A000", err)
}

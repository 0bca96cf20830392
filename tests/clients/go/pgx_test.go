package clients

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var modes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}

func TestEveryModeGivesTheSame(t *testing.T) {
	name := table(t, "host TEXT, v INT, d DOUBLE PRECISION, ok BOOLEAN, raw BYTEA")
	conn := connect(t)
	at := time.Date(2024, 2, 29, 1, 2, 3, 456789000, time.UTC)
	for n, mode := range modes {
		for range 3 {
			tag, err := conn.Exec(ctx, "INSERT INTO "+name+" VALUES ($1, $2, $3, $4, $5, $6)", mode,
				at, fmt.Sprint("it's ", n), n, 0.1, n%2 == 0, []byte{0, 255, 92})
			must(t, err)
			equal(t, "INSERT 0 1", tag.String())
		}
		type row struct {
			Time time.Time
			Host string
			V    int32
			D    float64
			OK   bool
			Raw  []byte
			Next int32
		}
		rows, err := conn.Query(ctx, "SELECT *, v + $2 FROM "+name+" WHERE host = $1 AND v < $3 LIMIT 1", mode, fmt.Sprint("it's ", n), 10, 100)
		must(t, err)
		found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
		must(t, err)
		found.Time = found.Time.UTC()
		equal(t, row{at, fmt.Sprint("it's ", n), int32(n), 0.1, n%2 == 0, []byte{0, 255, 92}, int32(n) + 10}, found)
		_, err = conn.Exec(ctx, "SELECT 1 / $1::int", mode, 0)
		fails(t, "22012", err)
	}
}

func TestStatementsFollowTheTable(t *testing.T) {
	name := table(t, "v INT")
	conn, other := connect(t), connect(t)
	columns := func() int {
		rows, err := conn.Query(ctx, "SELECT * FROM "+name)
		must(t, err)
		count := len(rows.FieldDescriptions())
		for rows.Next() {
		}
		// PostgreSQL says so once, and pgx prepares anew.
		if err := rows.Err(); err != nil {
			fails(t, "0A000", err)
			return -1
		}
		return count
	}
	equal(t, 2, columns())
	for n := range 3 {
		_, err := other.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ADD COLUMN c%d INT", name, n))
		must(t, err)
		if count := columns(); count != -1 {
			equal(t, 3+n, count)
		}
		equal(t, 3+n, columns())
	}
}

func TestColumnsAreDescribed(t *testing.T) {
	name := table(t, "host TEXT, n NUMERIC(8,2)")
	conn := connect(t)
	described, err := conn.Prepare(ctx, "describes", "SELECT host, n, 1 AS one FROM "+name+" WHERE time > $1 AND n = $2 AND host = ANY ($3) LIMIT $4")
	must(t, err)
	equal(t, []uint32{1184, 1700, 1009, 20}, described.ParamOIDs)
	oid := value[uint32](t, conn, "SELECT $1::text::regclass::oid", name)
	var found [][4]any
	for _, field := range described.Fields {
		found = append(found, [4]any{field.Name, field.DataTypeOID, field.TableOID, field.TableAttributeNumber})
	}
	equal(t, [][4]any{{"host", uint32(25), oid, uint16(2)}, {"n", uint32(1700), oid, uint16(3)}, {"one", uint32(23), uint32(0), uint16(0)}}, found)
	must(t, conn.Deallocate(ctx, "describes"))
	must(t, conn.DeallocateAll(ctx))
}

func TestBatches(t *testing.T) {
	name := table(t, "v INT")
	conn := connect(t)
	for _, mode := range modes {
		batch := &pgx.Batch{}
		for n := range 100 {
			batch.Queue("INSERT INTO "+name+" VALUES ($1, $2)", time.Unix(int64(n), 0), n)
		}
		var sum int64
		batch.Queue("SELECT sum(v) FROM " + name).QueryRow(func(row pgx.Row) error { return row.Scan(&sum) })
		batch.Queue("DELETE FROM " + name)
		config := conn.Config().Copy()
		config.DefaultQueryExecMode = mode
		with, err := pgx.ConnectConfig(ctx, config)
		must(t, err)
		must(t, with.SendBatch(ctx, batch).Close())
		must(t, with.Close(ctx))
		equal(t, int64(4950), sum)
	}
}

func TestABatchThatFailsStoresNothing(t *testing.T) {
	name := table(t, "v INT")
	conn := connect(t)
	batch := &pgx.Batch{}
	batch.Queue("INSERT INTO "+name+" VALUES (now(), $1)", 1)
	batch.Queue("SELECT 1 / $1::int", 0)
	batch.Queue("INSERT INTO "+name+" VALUES (now(), $1)", 2)
	fails(t, "22012", conn.SendBatch(ctx, batch).Close())
	equal(t, int64(0), value[int64](t, conn, "SELECT count(*) FROM "+name))
}

func TestPipelines(t *testing.T) {
	conn := connect(t)
	pipeline := conn.PgConn().StartPipeline(ctx)
	pipeline.SendPrepare("piped", "SELECT $1::int + 1", nil)
	pipeline.SendQueryPrepared("piped", [][]byte{[]byte("1")}, nil, nil)
	pipeline.SendQueryParams("SELECT 1/0", nil, nil, nil, nil)
	pipeline.SendQueryPrepared("piped", [][]byte{[]byte("2")}, nil, nil)
	must(t, pipeline.Sync())
	pipeline.SendQueryPrepared("piped", [][]byte{[]byte("3")}, nil, nil)
	must(t, pipeline.Sync())
	var read []string
	var failure error
	for range 12 {
		result, err := pipeline.GetResults()
		if err != nil {
			failure = err
		} else if result == nil {
			break
		} else if reader, ok := result.(*pgconn.ResultReader); ok {
			for reader.NextRow() {
				read = append(read, string(reader.Values()[0]))
			}
			if _, err := reader.Close(); err != nil {
				failure = err
			}
		}
	}
	pipeline.Close()
	fails(t, "22012", failure)
	equal(t, []string{"2", "4"}, read)
}

func TestCopyFrom(t *testing.T) {
	name := table(t, "host TEXT, v DOUBLE PRECISION, n NUMERIC(20,4), list INT[], ok BOOLEAN")
	conn := connect(t)
	columns := []string{"time", "host", "v", "n", "list", "ok"}
	copied, err := conn.CopyFrom(ctx, pgx.Identifier{name}, columns, pgx.CopyFromSlice(10000, func(n int) ([]any, error) {
		var host any
		if n%10 != 0 {
			host = fmt.Sprint("host ", n%7)
		}
		return []any{time.Unix(int64(n), 1000), host, float64(n) / 2, "12345678901234.5678", []int32{int32(n), 1}, n%2 == 0}, nil
	}))
	must(t, err)
	equal(t, int64(10000), copied)
	equal(t, []any{int64(10000), int64(9000), 24997500.0}, func() []any {
		var count, hosts int64
		var sum float64
		must(t, conn.QueryRow(ctx, "SELECT count(*), count(host), sum(v) FROM "+name).Scan(&count, &hosts, &sum))
		return []any{count, hosts, sum}
	}())
	_, err = conn.CopyFrom(ctx, pgx.Identifier{name}, columns, pgx.CopyFromFunc(func() ([]any, error) { return nil, errors.New("changed our mind") }))
	fails(t, "57014", err)
	equal(t, int64(10000), value[int64](t, conn, "SELECT count(*) FROM "+name))
}

func TestTransactionsNest(t *testing.T) {
	name := table(t, "v INT")
	conn, other := connect(t), connect(t)
	insert := "INSERT INTO " + name + " VALUES (now(), $1)"
	undone := errors.New("undone")
	must(t, pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert, 1)
		must(t, err)
		equal(t, undone, pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, insert, 2)
			must(t, err)
			_, err = inner.Exec(ctx, "SELECT 1/0")
			fails(t, "22012", err)
			return undone
		}))
		must(t, pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, insert, 3)
			return err
		}))
		equal(t, int64(0), value[int64](t, other, "SELECT count(*) FROM "+name))
		return nil
	}))
	equal(t, undone, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert, 4)
		must(t, err)
		return undone
	}))
	equal(t, []int32{1, 3}, value[[]int32](t, other, "SELECT array_agg(v ORDER BY v) FROM "+name))
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert, 5)
		return err
	})
	fails(t, "25006", err)
	tx, err := conn.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, "SELECT * FROM go_that_is_not_there")
	fails(t, "42P01", err)
	equal(t, pgx.ErrTxCommitRollback, tx.Commit(ctx))
}

func TestSerializableIsRefused(t *testing.T) {
	ours(t)
	_, err := connect(t).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	fails(t, "0A000", err)
}

func TestAContextCancels(t *testing.T) {
	conn := connect(t)
	pid := conn.PgConn().PID()
	cancelled, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		_, err := conn.Exec(cancelled, forever)
		ended <- err
	}()
	untilItRuns(t, pid)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// pgx closes the connection; its statement ends with it.
	other := connect(t)
	for value[int64](t, other, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", int32(pid)) != 0 {
		time.Sleep(10 * time.Millisecond)
	}
}

func TestACancelRequest(t *testing.T) {
	conn := connect(t)
	ended := make(chan error)
	go func() {
		_, err := conn.Exec(ctx, forever)
		ended <- err
	}()
	untilItRuns(t, conn.PgConn().PID())
	must(t, conn.PgConn().CancelRequest(ctx))
	fails(t, "57014", <-ended)
	equal(t, int32(1), value[int32](t, conn, "SELECT 1"))
	_, err := conn.Exec(ctx, "SET statement_timeout = '300ms'")
	must(t, err)
	_, err = conn.Exec(ctx, forever)
	fails(t, "57014", err)
}

func TestErrorsAndNotices(t *testing.T) {
	name := table(t, "host TEXT NOT NULL, PRIMARY KEY (host, time)")
	config, err := pgx.ParseConfig("")
	must(t, err)
	var notices []string
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		notices = append(notices, notice.Severity+" "+notice.Code+" "+notice.Message)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	must(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "DROP TABLE IF EXISTS go_that_is_not_there")
	must(t, err)
	equal(t, []string{`NOTICE 00000 table "go_that_is_not_there" does not exist, skipping`}, notices)
	insert := "INSERT INTO " + name + " VALUES ('2024-01-01', 'a')"
	_, err = conn.Exec(ctx, insert)
	must(t, err)
	_, err = conn.Exec(ctx, insert)
	fails(t, "23505", err)
	told := err.(*pgconn.PgError)
	equal(t, []string{"ERROR", "public", name, name + "_pkey"}, []string{told.SeverityUnlocalized, told.SchemaName, told.TableName, told.ConstraintName})
	_, err = conn.Exec(ctx, "SELECT nothing FROM "+name)
	fails(t, "42703", err)
	equal(t, int32(8), err.(*pgconn.PgError).Position)
}

func TestAPool(t *testing.T) {
	name := table(t, "v INT")
	config, err := pgxpool.ParseConfig("pool_max_conns=4 application_name=pooled")
	must(t, err)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET TimeZone = 'Asia/Tokyo'")
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(t, err)
	defer pool.Close()
	must(t, pool.Ping(ctx))
	ended := make(chan error)
	for n := range 40 {
		go func() {
			ended <- pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO "+name+" VALUES (to_timestamp($1), $2)", float64(n), n)
				return err
			})
		}()
	}
	for range 40 {
		must(t, <-ended)
	}
	equal(t, int64(780), value[int64](t, pool, "SELECT sum(v) FROM "+name))
	equal(t, "pooled Asia/Tokyo", value[string](t, pool, "SELECT current_setting('application_name') || ' ' || current_setting('TimeZone')"))
}

func TestSettingsAtConnect(t *testing.T) {
	conn := connect(t, "application_name=tests", "search_path=public", "options='-c statement_timeout=1234'")
	equal(t, "1234ms", value[string](t, conn, "SHOW statement_timeout"))
	equal(t, "public", value[string](t, conn, "SHOW search_path"))
	equal(t, "UTF8", conn.PgConn().ParameterStatus("client_encoding"))
	_, err := pgx.Connect(ctx, "dbname=go_no_database")
	fails(t, "3D000", err)
	ours(t)
	_, err = conn.Exec(ctx, "LISTEN channel")
	fails(t, "0A000", err)
}

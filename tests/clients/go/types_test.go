package clients

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// thereAndBack stores values in a column of a type, finds them by it, and reads them, in binary and as text.
func thereAndBack[T any](t *testing.T, kind string, values ...T) {
	t.Helper()
	name := table(t, "v "+kind)
	conn := connect(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for _, sent := range values {
			_, err := conn.Exec(ctx, "INSERT INTO "+name+" VALUES (now(), $1)", mode, sent)
			must(t, err)
			for _, format := range []int16{pgx.BinaryFormatCode, pgx.TextFormatCode} {
				if mode == pgx.QueryExecModeSimpleProtocol && format == pgx.BinaryFormatCode {
					continue
				}
				rows, err := conn.Query(ctx, "SELECT v FROM "+name+" WHERE v = $1", mode, pgx.QueryResultFormats{format}, sent)
				must(t, err)
				found, err := pgx.CollectRows(rows, pgx.RowTo[T])
				must(t, err)
				if len(found) != 1 || !same(sent, found[0]) {
					t.Fatalf("%s, mode %v, format %d: sent %#v, found %#v", kind, mode, format, sent, found)
				}
			}
			_, err = conn.Exec(ctx, "DELETE FROM "+name)
			must(t, err)
		}
	}
}

func same(sent, found any) bool {
	if one, ok := sent.(time.Time); ok {
		return one.Equal(found.(time.Time))
	}
	if one, ok := sent.(float64); ok && math.IsNaN(one) {
		return math.IsNaN(found.(float64))
	}
	return reflect.DeepEqual(sent, found)
}

func numeric(t *testing.T, text string) pgtype.Numeric {
	var number pgtype.Numeric
	must(t, number.Scan(text))
	return number
}

func TestTypes(t *testing.T) {
	id := pgtype.UUID{Bytes: [16]byte{0x6f, 0x1c, 0x1d, 0x2e, 0x3b, 0x6a, 0x4a, 0x53, 0x9f, 0x0e, 0x0d, 0x5c, 0x3a, 0x4b, 0x7e, 0x11}, Valid: true}
	for kind, test := range map[string]func(*testing.T){
		"smallint": func(t *testing.T) { thereAndBack[int16](t, "SMALLINT", math.MinInt16, 7) },
		"integer":  func(t *testing.T) { thereAndBack[int32](t, "INT", math.MinInt32, math.MaxInt32) },
		"bigint":   func(t *testing.T) { thereAndBack[int64](t, "BIGINT", math.MinInt64, math.MaxInt64) },
		"real":     func(t *testing.T) { thereAndBack[float32](t, "REAL", 0.25, -1e30) },
		"double":   func(t *testing.T) { thereAndBack(t, "DOUBLE PRECISION", 0.1, -1e300, math.Inf(1), math.NaN()) },
		"text":     func(t *testing.T) { thereAndBack(t, "TEXT", "", "it's \\ naïve 日本語 😀\n\t") },
		"boolean":  func(t *testing.T) { thereAndBack(t, "BOOLEAN", true, false) },
		"bytea":    func(t *testing.T) { thereAndBack(t, "BYTEA", []byte{}, []byte{0, 255, '\\', 'x'}) },
		"uuid":     func(t *testing.T) { thereAndBack(t, "UUID", id) },
		"timestamptz": func(t *testing.T) {
			thereAndBack(t, "TIMESTAMPTZ", time.Date(2024, 2, 29, 1, 2, 3, 456789000, time.UTC))
		},
		"timestamp": func(t *testing.T) {
			thereAndBack(t, "TIMESTAMP", time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC))
		},
		"date": func(t *testing.T) { thereAndBack(t, "DATE", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)) },
		"time": func(t *testing.T) {
			thereAndBack(t, "TIME", pgtype.Time{Microseconds: 86399999999, Valid: true})
		},
		"interval": func(t *testing.T) {
			thereAndBack(t, "INTERVAL", pgtype.Interval{Months: 14, Days: -3, Microseconds: 14706789000, Valid: true})
		},
		"integers": func(t *testing.T) { thereAndBack(t, "INT[]", []int32{1, -3}, []int32{}) },
		"texts": func(t *testing.T) {
			thereAndBack(t, "TEXT[]", []string{"a", "", "with \"quotes\", {braces} and \\", "NULL"})
		},
		"floats": func(t *testing.T) { thereAndBack(t, "DOUBLE PRECISION[]", []float64{0.5, -1}) },
		"json":   func(t *testing.T) { thereAndBack(t, "JSONB", `{"a": [1.5, null, "é"]}`) },
	} {
		t.Run(kind, test)
	}
}

func TestNumericsAreExact(t *testing.T) {
	name := table(t, "v NUMERIC(30,6)")
	conn := connect(t)
	for _, text := range []string{"123456789012345678901234.123456", "-0.000001", "10000.000000"} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			_, err := conn.Exec(ctx, "INSERT INTO "+name+" VALUES (now(), $1)", mode, numeric(t, text))
			must(t, err)
			var found pgtype.Numeric
			must(t, conn.QueryRow(ctx, "SELECT v FROM "+name+" WHERE v = $1", mode, numeric(t, text)).Scan(&found))
			equal(t, text, value[string](t, conn, "SELECT v::text FROM "+name))
			back, err := found.Value()
			must(t, err)
			equal(t, any(text), any(back))
			_, err = conn.Exec(ctx, "DELETE FROM "+name)
			must(t, err)
		}
	}
}

func TestNulls(t *testing.T) {
	name := table(t, "i INT, s TEXT, f DOUBLE PRECISION, z TIMESTAMPTZ, list INT[], n NUMERIC(8,2)")
	conn := connect(t)
	for _, mode := range modes {
		_, err := conn.Exec(ctx, "INSERT INTO "+name+" VALUES (now(), $1, $2, $3, $4, $5, $6)", mode,
			nil, nil, (*float64)(nil), pgtype.Timestamptz{}, nil, nil)
		must(t, err)
	}
	equal(t, []any{int64(5), int64(0)}, func() []any {
		var rows, values int64
		must(t, conn.QueryRow(ctx, "SELECT count(*), count(i) + count(s) + count(f) + count(z) + count(list) + count(n) FROM "+name).Scan(&rows, &values))
		return []any{rows, values}
	}())
	var list []*int32
	must(t, conn.QueryRow(ctx, "SELECT ARRAY[1, NULL, 3]").Scan(&list))
	equal(t, true, len(list) == 3 && *list[0] == 1 && list[1] == nil)
}

func TestTypesOfParametersAreInferred(t *testing.T) {
	name := table(t, "v INT")
	conn := connect(t)
	_, err := conn.Exec(ctx, "INSERT INTO "+name+" SELECT to_timestamp(n), n FROM generate_series(1, 10) AS g(n)")
	must(t, err)
	equal(t, int32(42), value[int32](t, conn, "SELECT $1 + 1", 41))
	equal(t, int64(2), value[int64](t, conn, "SELECT count(*) FROM "+name+" WHERE v = ANY ($1)", []int32{1, 2, 99}))
	equal(t, int32(5), value[int32](t, conn, "SELECT v FROM "+name+" ORDER BY time LIMIT $1 OFFSET $2", 1, 4))
	equal(t, "LOUD", value[string](t, conn, "SELECT upper($1)", "loud"))
	equal(t, int64(6), value[int64](t, conn, "SELECT count(*) FROM "+name+" WHERE time < $1::timestamptz + $2", time.Unix(5, 0), 2*time.Second))
	equal(t, int64(3), value[int64](t, conn, "SELECT count(*) FROM generate_series(1, $1) AS g(n)", 3))
	equal(t, 1.5, value[float64](t, conn, "SELECT CASE WHEN $1 THEN 1.5::float8 ELSE $2 END", true, 2.5))
	equal(t, "b", value[string](t, conn, "SELECT COALESCE($1, $2::text)", nil, "b"))
}

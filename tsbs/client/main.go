// Reads what tsbs_generate_queries writes, and asks servers for it.
//
//	client texts <QUERIES >TEXTS           the generator's gob as lines of JSON strings
//	client run --kind pg|http ... <TEXTS    asks; prints milliseconds of each query as JSON
//
// A latency ends when the last byte of the answer has been read. Answers are thrown away, so
// that what the client costs is the same for all: bytes through a socket.
package main

import (
	"bufio"
	"encoding/gob"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// What the generator encodes, of all formats: gob leaves out what a format does not have.
type generated struct {
	SqlQuery, RawQuery, Path, Body []byte
}

// One connection, which one worker uses.
type asker interface {
	// Rows where the protocol tells, and bytes of the answer.
	ask(text string) (rows int, bytes int64, err error)
}

type report struct {
	Milliseconds []float64 `json:"ms"`
	Rows         []int     `json:"rows"`
	Bytes        []int64   `json:"bytes"`
	Seconds      float64   `json:"seconds"`
	Error        string    `json:"error,omitempty"`
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("texts or run?"))
	}
	switch os.Args[1] {
	case "texts":
		fail(texts(os.Stdin, os.Stdout))
	case "run":
		flags := flag.NewFlagSet("run", flag.ExitOnError)
		kind := flags.String("kind", "pg", "pg, or http")
		address := flags.String("address", "", "host:port")
		user := flags.String("user", "", "of pg; the database has the same name")
		before := flags.String("before", "", "of http: what stands before the query in the URL")
		whole := flags.Bool("whole", false, "of http: the queries are URLs' paths and all that follows")
		method := flags.String("method", "GET", "of http")
		clients := flags.Int("clients", 1, "connections at once")
		seconds := flags.Float64("seconds", 0, "no query begins after so many")
		again := flags.Bool("again", false, "begin the texts anew until the time is over")
		flags.Parse(os.Args[2:])
		open := func() (asker, error) {
			if *kind == "http" {
				return openHttp(*address, *method, *before, *whole)
			}
			return openPg(*address, *user)
		}
		fail(run(open, *clients, *seconds, *again))
	default:
		fail(fmt.Errorf("%s: texts or run?", os.Args[1]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func texts(from io.Reader, to io.Writer) error {
	decoder := gob.NewDecoder(bufio.NewReaderSize(from, 1<<20))
	out := json.NewEncoder(to)
	out.SetEscapeHTML(false)
	for {
		var query generated
		err := decoder.Decode(&query)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		text := query.SqlQuery
		if len(text) == 0 {
			text = query.RawQuery
		}
		if len(text) == 0 {
			text = query.Path
		}
		if err := out.Encode(string(text)); err != nil {
			return err
		}
	}
}

// run lets every client take the next text until there are none, or time is over.
func run(open func() (asker, error), clients int, seconds float64, again bool) error {
	var queries []string
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var text string
		if err := in.Decode(&text); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		queries = append(queries, text)
	}
	connections := make([]asker, clients)
	for at := range connections {
		connection, err := open()
		if err != nil {
			return err
		}
		connections[at] = connection
	}
	var next atomic.Int64
	var taking sync.Mutex
	var working sync.WaitGroup
	found := report{Milliseconds: []float64{}, Rows: []int{}, Bytes: []int64{}}
	began := time.Now()
	for _, connection := range connections {
		working.Add(1)
		go func() {
			defer working.Done()
			for first := true; ; first = false {
				at := int(next.Add(1)) - 1
				if !again && at >= len(queries) {
					return
				}
				if seconds > 0 && !first && time.Since(began).Seconds() > seconds {
					return
				}
				asked := time.Now()
				rows, bytes, err := connection.ask(queries[at%len(queries)])
				took := float64(time.Since(asked).Nanoseconds()) / 1e6
				taking.Lock()
				if err != nil {
					found.Error = err.Error()
					taking.Unlock()
					return
				}
				found.Milliseconds = append(found.Milliseconds, took)
				found.Rows = append(found.Rows, rows)
				found.Bytes = append(found.Bytes, bytes)
				taking.Unlock()
			}
		}()
	}
	working.Wait()
	found.Seconds = time.Since(began).Seconds()
	return json.NewEncoder(os.Stdout).Encode(found)
}

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// pgConnection asks in the extended protocol for values in binary, as TSBS's own runner does;
// parsing, binding and executing travel together.
type pgConnection struct {
	socket net.Conn
	reader *bufio.Reader
}

func openPg(address, user string) (asker, error) {
	socket, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	connection := &pgConnection{socket, bufio.NewReaderSize(socket, 1<<20)}
	body := binary.BigEndian.AppendUint32(nil, 196608)
	body = append(body, "user\x00"+user+"\x00database\x00"+user+"\x00\x00"...)
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	if _, err := socket.Write(append(head, body...)); err != nil {
		return nil, err
	}
	_, _, err = connection.untilReady()
	return connection, err
}

func (connection *pgConnection) ask(text string) (int, int64, error) {
	var out []byte
	out = packet(out, 'P', []byte("\x00"+text+"\x00\x00\x00"))
	out = packet(out, 'B', []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 1})
	out = packet(out, 'D', []byte{'P', 0})
	out = packet(out, 'E', []byte{0, 0, 0, 0, 0})
	out = packet(out, 'S', nil)
	if _, err := connection.socket.Write(out); err != nil {
		return 0, 0, err
	}
	return connection.untilReady()
}

func packet(out []byte, kind byte, body []byte) []byte {
	out = binary.BigEndian.AppendUint32(append(out, kind), uint32(len(body)+4))
	return append(out, body...)
}

func (connection *pgConnection) untilReady() (rows int, bytes int64, err error) {
	var failed error
	for {
		var head [5]byte
		if _, err := io.ReadFull(connection.reader, head[:]); err != nil {
			return rows, bytes, err
		}
		length := int(binary.BigEndian.Uint32(head[1:])) - 4
		bytes += int64(length) + 5
		switch head[0] {
		case 'D':
			rows++
		case 'R':
			body := make([]byte, length)
			if _, err := io.ReadFull(connection.reader, body); err != nil {
				return rows, bytes, err
			}
			if binary.BigEndian.Uint32(body) != 0 {
				return rows, bytes, fmt.Errorf("the server wants a password")
			}
			continue
		case 'E':
			body := make([]byte, length)
			if _, err := io.ReadFull(connection.reader, body); err != nil {
				return rows, bytes, err
			}
			failed = fmt.Errorf("%s", strings.ReplaceAll(string(body), "\x00", " "))
			continue
		case 'Z':
			_, err := connection.reader.Discard(length)
			if err == nil {
				err = failed
			}
			return rows, bytes, err
		}
		if _, err := connection.reader.Discard(length); err != nil {
			return rows, bytes, err
		}
	}
}

// httpConnection asks as TSBS's runners of QuestDB and InfluxDB do: the query is part of the URL.
type httpConnection struct {
	client *http.Client
	method string
	before string
	whole  bool
}

func openHttp(address, method, before string, whole bool) (asker, error) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	return &httpConnection{client, method, "http://" + address + before, whole}, nil
}

func (connection *httpConnection) ask(text string) (int, int64, error) {
	if !connection.whole {
		text = url.QueryEscape(text)
	}
	request, err := http.NewRequest(connection.method, connection.before+text, nil)
	if err != nil {
		return 0, 0, err
	}
	answer, err := connection.client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return 0, 0, fmt.Errorf("%s: %s", answer.Status, said)
	}
	bytes, err := io.Copy(io.Discard, answer.Body)
	return 0, bytes, err
}

// Connects with each URL of the command line through pgx, and prints the user of the session or the refusal.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

func ask(url string) (string, error) {
	connection, err := pgx.Connect(context.Background(), url)
	if err != nil {
		return "", err
	}
	defer connection.Close(context.Background())
	var user string
	err = connection.QueryRow(context.Background(), "SELECT current_user").Scan(&user)
	return user, err
}

func main() {
	for _, url := range os.Args[1:] {
		if user, err := ask(url); err != nil {
			fmt.Println("refused " + strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("as " + user)
		}
	}
}

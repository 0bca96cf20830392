// Checks the files of docker-compose.yml with the code of the programs that will read them: the parser of
// Docker Compose, and the types of Grafana's dashboards.
//
//	compose FILE           prints the file as JSON, with every default and every short form resolved
//	dashboards FILE…       fails at a field that Grafana's types do not have, or at a value of another type
//	json FILE              prints a YAML file as JSON, read with Grafana's YAML library
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"go.yaml.in/yaml/v3"
)

func main() {
	if len(os.Args) < 3 {
		fail(errors.New("usage: compose FILE | dashboards FILE… | json FILE"))
	}
	switch command, files := os.Args[1], os.Args[2:]; command {
	case "compose":
		text, err := compose(files)
		if err != nil {
			fail(err)
		}
		fmt.Println(string(text))
	case "dashboards":
		plugins.RegisterDefaultPlugins()
		for _, file := range files {
			if err := checkDashboard(file); err != nil {
				fail(fmt.Errorf("%s: %w", file, err))
			}
		}
	case "json":
		text, err := yamlAsJSON(files[0])
		if err != nil {
			fail(fmt.Errorf("%s: %w", files[0], err))
		}
		fmt.Println(string(text))
	default:
		fail(fmt.Errorf("no command %s", command))
	}
}

func compose(files []string) ([]byte, error) {
	options, err := cli.NewProjectOptions(files)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalJSON()
}

func checkDashboard(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	err = dashboard.NewDashboard().UnmarshalJSONStrict(text)
	// The types return an empty list of errors for a correct list of texts, for example in a variable.
	if list := (cog.BuildErrors{}); errors.As(err, &list) && len(list) == 0 {
		return nil
	}
	return err
}

func yamlAsJSON(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

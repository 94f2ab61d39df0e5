// Renders the templates of a Helm chart with the engine and the functions that Helm uses, from Debian's packages.
//
// Arguments: the chart's directory. Standard input: what templates see ({"Values": …, "Chart": …, "Release": …}) as JSON.
// Standard output: the texts by file name as JSON. No part of the product.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(chart string) error {
	var seen map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&seen); err != nil {
		return fmt.Errorf("what templates see: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	templates := template.New("").Option("missingkey=zero")
	templates.Funcs(functions(templates))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := templates.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	rendered := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out strings.Builder
		if err := templates.ExecuteTemplate(&out, name, seen); err != nil {
			return err
		}
		rendered[name] = strings.ReplaceAll(out.String(), "<no value>", "")
	}
	return json.NewEncoder(os.Stdout).Encode(rendered)
}

// functions are those of sprig, and of what Helm adds those that charts of ours use.
func functions(templates *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env")
	delete(all, "expandenv")
	all["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := templates.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	all["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	return all
}

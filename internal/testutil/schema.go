package testutil

import (
	"encoding"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Schema returns the JSON Schema (draft 2020-12) of a type as encoding/json writes it. Types
// that write themselves are text, unless forms has them. Fields without omitempty are
// required. Further fields are allowed: names are stable, and some may be added.
func Schema(title string, v any, forms map[string]any) map[string]any {
	s := schemaOf(reflect.TypeOf(v), forms)
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	return s
}

var texts = reflect.TypeFor[encoding.TextMarshaler]()

func schemaOf(t reflect.Type, forms map[string]any) map[string]any {
	if form, ok := forms[t.Name()]; ok && t.Name() != "" {
		return map[string]any{"oneOf": form}
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t.Implements(texts):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := schemaOf(t.Elem(), forms)
		return map[string]any{"oneOf": []any{inner, map[string]any{"type": "null"}}}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": []any{"array", "null"}, "items": schemaOf(t.Elem(), forms)}
	case reflect.Map:
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), forms)}
	case reflect.Struct:
		return objectOf(t, forms)
	case reflect.Interface:
		return map[string]any{}
	}
	return map[string]any{"type": "integer"}
}

func objectOf(t reflect.Type, forms map[string]any) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties[name] = schemaOf(f.Type, forms)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// SameSchema fails the test if a file is not the schema, or writes it where update is set.
func SameSchema(t *testing.T, file string, schema map[string]any, update bool) {
	t.Helper()
	want, err := json.MarshalIndent(schema, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("%s is not the schema of what the program writes (%v): run this test with -schema", file, err)
	}
}

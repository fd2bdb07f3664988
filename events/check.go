package events

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// strict says that Append holds each event against the catalogue. It is so in every test, and never outside: a wrong row must fail a test, and not
// somebody's cordon.
var strict = testing.Testing()

// forTests says that a type is one that a test made up.
func forTests(eventType string) bool {
	return strings.HasPrefix(eventType, "test.") || strings.HasPrefix(eventType, security+"test.")
}

// Check says what of an entry does not fit its row of the catalogue. Types that begin with "test." fit anything.
func Check(e Entry, data []byte) error {
	if forTests(e.Type) {
		return nil
	}
	k := Find(e.Type)
	if k == nil {
		return fmt.Errorf("event %s is not in the catalogue: add its row to events/catalogue_*.go and run just generate (docs/checklists/add-an-event.md)", e.Type)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("event %s: its data is no object: %w", e.Type, err)
	}
	for name, value := range fields {
		i := slices.IndexFunc(k.Fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return fmt.Errorf("event %s: its row in the catalogue has no field %q", e.Type, name)
		}
		f := &k.Fields[i]
		if string(value) == "null" {
			if f.Always {
				return fmt.Errorf("event %s: the field %q is null, and the catalogue says that it is always there", e.Type, name)
			}
			continue
		}
		if err := f.Shape.check(value); err != nil {
			return fmt.Errorf("event %s: the field %q is no %s: %w", e.Type, name, f.Shape, err)
		}
	}
	for i := range k.Fields {
		if f := &k.Fields[i]; f.Always && fields[f.Name] == nil {
			return fmt.Errorf("event %s: the field %q is missing, and the catalogue says that it is always there", e.Type, f.Name)
		}
	}
	return k.checkReaders(e)
}

func (k *Kind) checkReaders(e Entry) error {
	if (k.Readers == ToOwner || k.Readers == ToSecurity) && len(e.Audience.Reduced) > 0 {
		return fmt.Errorf("event %s: the catalogue says that it is for owners only, and it has the reduced readers %v", k.Type, e.Audience.Reduced)
	}
	if (k.Readers == ToSecurity) != strings.HasPrefix(k.Type, security) {
		return fmt.Errorf("event %s: security events are those whose type begins with %s", k.Type, security)
	}
	if e.NodeID == "" && strings.HasPrefix(strings.TrimPrefix(k.Type, security), "node.") {
		return fmt.Errorf("event %s: it names no node", k.Type)
	}
	return nil
}

var enumValue = regexp.MustCompile(`^[A-Z][A-Z_]*$`)

// check says whether a value in the data is of the shape.
func (s Shape) check(value json.RawMessage) error {
	var err error
	switch s {
	case ShapeID:
		var v string
		if err = json.Unmarshal(value, &v); err == nil && v == "" {
			err = fmt.Errorf("it is empty: leave the field out where there is none")
		}
	case ShapeString:
		err = json.Unmarshal(value, new(string))
	case ShapeIDs, ShapeStrings:
		err = json.Unmarshal(value, new([]string))
	case ShapeInt:
		err = json.Unmarshal(value, new(int64))
	case ShapeBoolean:
		err = json.Unmarshal(value, new(bool))
	case ShapeDateTime:
		err = json.Unmarshal(value, new(time.Time))
	case ShapeLabels, ShapePrint:
		err = json.Unmarshal(value, new(map[string]string))
	default: // an enum of the schema
		var v string
		if err = json.Unmarshal(value, &v); err == nil && !enumValue.MatchString(v) {
			err = fmt.Errorf("%q is not in upper case", v)
		}
	}
	return err
}

// Example gives an event of the kind with every field, as data.
func (k *Kind) Example() json.RawMessage {
	data := make(map[string]any, len(k.Fields))
	for i := range k.Fields {
		data[k.Fields[i].Name] = k.Fields[i].Example
	}
	out, err := json.Marshal(data)
	if err != nil {
		return json.RawMessage("{}") // a test reads each
	}
	return out
}

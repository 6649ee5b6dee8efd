package batch

import (
	"encoding/json"
	"unicode/utf8"

	"capd/vfs"
	"capd/vfs/diff"
)

// intent is what a batch will do, as stored in the journal.
type intent struct {
	Name    string
	Keep    bool
	Changes []diff.Change // in tree order; without Content

	contents map[vfs.Version]segment // in the pack
}

// format is the version of the journal's files.
const format = 1

// maxIntent bounds an intent, in bytes. It has room for MaxChanges with paths of common
// length.
const maxIntent = 1 << 30

type intentJSON struct {
	Format   int                `json:"format"`
	Name     text               `json:"name"`
	Keep     bool               `json:"keep,omitempty"`
	Changes  []changeJSON       `json:"changes"`
	Contents map[string]segment `json:"contents,omitempty"` // by version
}

type changeJSON struct {
	Path    text       `json:"path"`
	Was     *stateJSON `json:"was,omitempty"` // nil for nothing
	Becomes *stateJSON `json:"becomes,omitempty"`
}

type stateJSON struct {
	Kind    string `json:"kind"`
	Version string `json:"version,omitempty"`
	Exec    bool   `json:"exec,omitempty"`
	Target  text   `json:"target,omitempty"`
}

// text is a string that need not be UTF-8. If it is not, it is encoded as an object
// with its bytes in base64.
type text string

type bytesJSON struct {
	Bytes []byte `json:"bytes"`
}

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(bytesJSON{[]byte(t)})
}

func (t *text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var b bytesJSON
		err := json.Unmarshal(data, &b)
		*t = text(b.Bytes)
		return err
	}
	return json.Unmarshal(data, (*string)(t))
}

func (i *intent) encode() ([]byte, error) {
	out := intentJSON{Format: format, Name: text(i.Name), Keep: i.Keep, Contents: map[string]segment{}}
	for _, c := range i.Changes {
		out.Changes = append(out.Changes, changeJSON{text(c.Path), encodeState(c.Was), encodeState(c.Is)})
	}
	for v, s := range i.contents {
		out.Contents[v.String()] = s
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, vfs.Hide(err)
	}
	if len(b) > maxIntent {
		return nil, vfs.Errorf(vfs.Limit, "this batch has too many and too long paths; make several")
	}
	return b, nil
}

func encodeState(s diff.State) *stateJSON {
	if s.Absent() {
		return nil
	}
	return &stateJSON{s.Kind.String(), s.Version.String(), s.Exec, text(s.Target)}
}

// decode parses what encode wrote. It answers corrupt for anything else.
func decode(data []byte) (intent, error) {
	var in intentJSON
	if err := json.Unmarshal(data, &in); err != nil || in.Format != format {
		return intent{}, errIntent
	}
	i := intent{Name: string(in.Name), Keep: in.Keep, contents: map[vfs.Version]segment{}}
	for digits, s := range in.Contents {
		v, err := vfs.ParseVersion(digits)
		if err != nil || s.Offset < 0 || s.Size < 0 || s.Offset+s.Size < 0 {
			return intent{}, errIntent
		}
		i.contents[v] = s
	}
	for _, c := range in.Changes {
		was, ok1 := c.Was.state()
		becomes, ok2 := c.Becomes.state()
		if !ok1 || !ok2 {
			return intent{}, errIntent
		}
		i.Changes = append(i.Changes, diff.Change{Path: string(c.Path), Was: was, Is: becomes})
	}
	var err error
	if i.Changes, err = ordered(i.Changes); err != nil {
		return intent{}, errIntent
	}
	for _, c := range i.Changes {
		for _, s := range []diff.State{c.Was, c.Is} {
			if _, ok := i.contents[s.Version]; s.Kind == vfs.FileKind && !ok {
				return intent{}, errIntent
			}
		}
	}
	return i, nil
}

func (s *stateJSON) state() (diff.State, bool) {
	if s == nil {
		return diff.State{}, true
	}
	out := diff.State{Exec: s.Exec, Target: string(s.Target)}
	for _, k := range []vfs.Kind{vfs.FileKind, vfs.DirKind, vfs.LinkKind} {
		if k.String() == s.Kind {
			out.Kind = k
		}
	}
	if s.Version != "" {
		v, err := vfs.ParseVersion(s.Version)
		if err != nil {
			return diff.State{}, false
		}
		out.Version = v
	}
	return out, out.Kind != vfs.Other
}

var errIntent = vfs.Errorf(vfs.Corrupt, "an intent in the journal cannot be read")

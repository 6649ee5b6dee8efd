package batch

import (
	"reflect"
	"testing"

	"capd/vfs"
	"capd/vfs/diff"
)

var sampleIntent = intent{
	Name: "bad\xff", Keep: true,
	Changes: []diff.Change{
		{Path: "a", Was: diff.State{Kind: vfs.FileKind, Version: vfs.Version{1}}, Is: diff.State{Kind: vfs.FileKind, Version: vfs.Version{2}, Exec: true}},
		{Path: "d\xff", Is: diff.State{Kind: vfs.DirKind}},
		{Path: "d\xff/l", Was: diff.State{Kind: vfs.LinkKind, Target: "\xfe"}},
	},
	contents: map[vfs.Version]segment{{1}: {0, 10}, {2}: {10, 0}},
}

func TestIntent(t *testing.T) {
	sampleIntent.Changes[1].Was = diff.State{Kind: vfs.LinkKind, Target: "x"}
	b, err := sampleIntent.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(b)
	if err != nil || !reflect.DeepEqual(got, sampleIntent) {
		t.Errorf("%+v, %v; want %+v", got, err, sampleIntent)
	}
}

// What is no intent is corrupt, and what is one is written as it was read.
func FuzzIntent(f *testing.F) {
	b, err := sampleIntent.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":1,"name":{"bytes":"/w=="},"changes":null}`))
	f.Add([]byte(`{"format":1,"changes":[{"path":"a","was":{"kind":"file"}}]}`))
	f.Add([]byte(`{"format":1,"contents":{"ff":{"Offset":-1}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := decode(data)
		if err != nil {
			if vfs.CodeOf(err) != vfs.Corrupt {
				t.Fatalf("%v, want corrupt", err)
			}
			return
		}
		b, err := i.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(b)
		if err != nil || !reflect.DeepEqual(i, again) {
			t.Fatalf("%+v becomes %+v, %v", i, again, err)
		}
	})
}

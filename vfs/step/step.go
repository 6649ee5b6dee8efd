// Package step says what the steps of a change of many paths are. It is shared by those who ask for such a change and by
// [capd/vfs/change], which makes it.
package step

import (
	"context"
	"io"

	"capd/vfs"
	"capd/vfs/edit"
)

// Max is how many steps a change has at most, and how many paths it changes.
const Max = 1000

// Verb is what a step does.
type Verb uint8

// The verbs.
const (
	Put    Verb = iota // makes Data the whole content of the file at Path
	Remove             // the file, the link or the empty directory at Path
	Move               // what is at Path to To
	Mkdir              // makes an empty directory at Path
	Edit               // makes Edits, one after the other, in the file at Path
)

// Step is a part of a change. Paths are from the directory of the change.
type Step struct {
	Verb     Verb
	Path, To string
	Data     []byte
	Source   *Source // Put: in place of Data, a content that is read when it is needed
	Edits    []edit.Edit
	Exec     *bool       // Put: whether the file is executable, which needs the rights to set attributes; nil leaves that as it is
	If       vfs.If      // on what is at Path
	Left     vfs.Version // Put, Edit: the version that it leaves, which is set when the change is made
	IfTarget vfs.If      // Move: on what is at To, which must be absent unless it is a file with that version
}

// Source is the content of a file that is too long to be kept in memory. It does not change.
type Source struct {
	Version vfs.Version
	Size    int64
	Open    func(context.Context) (io.ReadCloser, error)
}

// Package approval is where changes, and the wishes of subjects without a grant, wait for somebody to decide about
// them: the [Desk] of a host. What waits, and what was decided, outlives the process.
package approval

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"time"

	"capd/record"
	"capd/vfs"
)

const (
	// Patience is how long a call waits for a decision. The request stays when it has ended.
	Patience = 120 * time.Second
	// Holds is how long a decision holds for the change that it was made about.
	Holds = 10 * time.Minute
	// MaxPending is how many requests of one root grant and of its shares wait at once. A share and what was shared from it have
	// at most as many of them as all shares leave free. A new one takes the place of the oldest
	// for which no call waits, among those of the same share and of what was shared from it.
	MaxPending = 16

	kept      = 24 * time.Hour      // how long a request waits for a decision
	history   = 30 * 24 * time.Hour // how long a decided one is listed
	listening = 10 * time.Second    // how long somebody still listens after a watch has ended
)

// Read is the operation of a read. A yes to one holds for all reads of that version, as long as it holds.
const Read = "read"

// Change is the operation of a change of several paths. It is approved for what it is, and not for a time.
const Change = "change"

// Copy is the operation of a copy of a directory, which is approved like a Change.
const Copy = "copy"

// ID names a request for an approval.
type ID [16]byte

// String returns 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Asked is a change that needs an approval. A decision holds for a change that is equal in everything
// but Guest, Grants, Stands, Size, Why and Diff.
type Asked struct {
	Root  int64  // the root grant
	Grant int64  // through which the change is made: the root grant, or a share of it
	Guest string // who holds Grant, as grants lists it

	Grants []record.Holder // Grant and those that it is shared from, for the record

	Operation string
	Path, To  string // in the host's tree

	Found, FoundTo vfs.If      // what has to be there; the store sees to it
	Digest         vfs.Version // of what is written; zero for nothing
	Exec           bool        // whether the file is to be executable
	Stands         bool        // one given with always covered it when it began: Found and FoundTo are not what is there, and nobody can be asked

	Size int64         // bytes to be written
	Why  []string      // what asks: "project: **/.git/**"
	Diff func() string // shows the change; may be nil. It is called once for equal changes.

	// Request is set for a wish, and then only Guest and Path are besides. Equal wishes are equal in what Request says.
	Request *Request
}

// binding is what a decision is bound to.
type binding [sha256.Size]byte

// binding returns the same for equal changes alone.
func (a *Asked) binding() binding {
	if a.Request != nil {
		return a.Request.Binding()
	}
	h := sha256.New()
	number(h, uint64(a.Root), uint64(a.Grant))
	for _, s := range []string{a.Operation, a.Path, a.To} {
		number(h, uint64(len(s)))
		h.Write([]byte(s))
	}
	for _, c := range []vfs.If{a.Found, a.FoundTo} {
		number(h, flag(c.Absent), flag(c.NoFile))
		h.Write(c.Is[:])
		if c.Over {
			number(h, 1)
		}
	}
	h.Write(a.Digest[:])
	number(h, flag(a.Exec))
	return binding(h.Sum(nil))
}

func number(h hash.Hash, all ...uint64) {
	for _, n := range all {
		h.Write(binary.BigEndian.AppendUint64(nil, n))
	}
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

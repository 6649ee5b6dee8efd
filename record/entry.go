package record

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"capd/vfs"
)

// Kind says what an entry is about.
type Kind uint8

// The kinds of entries. Their numbers are in the database, so they never change.
const (
	Started   Kind = 1 + iota // a host began to write
	Intended                  // a change that is about to be made
	Ended                     // how a change ended
	Settled                   // how a change ended during which a host was killed, as the next start found out
	Asked                     // a change waits for an approval
	Decided                   // somebody has decided about that
	Granted                   // a grant that was given
	Shared                    // a share that was made of one
	Revoked                   // a grant, a share or an invitation that was taken back
	Expired                   // a grant or share whose time was over
	Ruled                     // other rules hold from then on
	Changed                   // a grant or an invitation that has other terms from then on
	Denied                    // calls that were refused
	Trimmed                   // entries were removed because of their age, or because there were too many
	Read                      // one read or listing, where each is recorded
	Counted                   // how often something was read, by directory
	Hook                      // a hook was registered or removed
	Invited                   // an invitation that was made
	Mounted                   // a store that an operator has mounted
	Unmounted                 // one that was unmounted
	Locked                    // what a host refuses at a path of a grant
)

var kinds = []string{
	Started:   "started",
	Intended:  "intent",
	Ended:     "outcome",
	Settled:   "settled",
	Asked:     "asked",
	Decided:   "decided",
	Granted:   "granted",
	Shared:    "shared",
	Revoked:   "revoked",
	Expired:   "expired",
	Ruled:     "policy",
	Changed:   "terms",
	Denied:    "denied",
	Trimmed:   "trimmed",
	Read:      "read",
	Counted:   "reads",
	Hook:      "hook",
	Invited:   "invited",
	Mounted:   "mounted",
	Unmounted: "unmounted",
	Locked:    "locked",
}

// Kinds yields all kinds, in the order of their numbers.
func Kinds() iter.Seq[Kind] {
	return func(yield func(Kind) bool) {
		for k := 1; k < len(kinds) && yield(Kind(k)); k++ {
		}
	}
}

// String returns the word that entries and commands have for k.
func (k Kind) String() string {
	if int(k) < len(kinds) && k > 0 {
		return kinds[k]
	}
	return "unknown"
}

// ParseKind returns the kind with that word. It answers invalid.
func ParseKind(word string) (Kind, error) {
	if i := slices.Index(kinds, word); i > 0 {
		return Kind(i), nil
	}
	return 0, vfs.Errorf(vfs.Invalid, "there are no entries of the kind %q; there are %s", word, strings.Join(kinds[1:], ", "))
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. A word of a newer capd is kept as the zero Kind.
func (k *Kind) UnmarshalText(word []byte) error {
	*k = Kind(max(slices.Index(kinds, string(word)), 0))
	return nil
}

// Entry is one entry of the record. What does not concern its kind is zero and is not written.
type Entry struct {
	Format int   `json:"v"`  // 1
	At     int64 `json:"at"` // milliseconds since the epoch
	Kind   Kind  `json:"kind"`
	Of     int64 `json:"of,omitempty"` // the number of the intent, in how it ended

	Grants  []Holder `json:"grants,omitempty"` // the one that the call came through, and those that it is shared from
	Subject string   `json:"subject,omitempty"`
	Invite  string   `json:"invite,omitempty"` // id of an invitation
	Rights  string   `json:"rights,omitempty"` // of what was granted

	Op   string `json:"op,omitempty"` // as membrane.OpKind has it
	Path Path   `json:"path,omitempty"`
	To   Path   `json:"to,omitempty"` // of a rename

	Was     *Was   `json:"was,omitempty"`     // the file that is changed, as the store saw it before; nil if it does not tell
	Version string `json:"version,omitempty"` // of a whole file that is put: SHA-256, hexadecimal
	Size    int64  `json:"size,omitempty"`    // of that file, in bytes
	Bytes   int64  `json:"bytes,omitempty"`   // by how much the store grows: an intent has the most
	Nodes   int64  `json:"nodes,omitempty"`   // the same in files, directories and links

	Span *Span `json:"span,omitempty"` // what was written in place, in how that ended

	Ask    string   `json:"ask,omitempty"`    // id of the request for an approval; in an intent, of the one that approved it
	Why    []string `json:"why,omitempty"`    // what asks
	Answer string   `json:"answer,omitempty"` // once, always or deny; ended for an approval that an operator has ended
	By     string   `json:"by,omitempty"`     // who decided

	Hooks []Hooked `json:"hooks,omitempty"` // those that were asked before a change, in order; and the one that was registered or removed

	Policy string `json:"policy,omitempty"` // the hash of the rules that hold

	Rule   string `json:"rule,omitempty"`   // where the rule is written that refused
	Times  int64  `json:"times,omitempty"`  // how many calls the entry stands for
	Before int64  `json:"before,omitempty"` // the entries with smaller numbers were removed

	Dirs []Dir `json:"dirs,omitempty"` // what was read

	Undoes  string   `json:"undoes,omitempty"`  // the id of the apply that is undone
	Branch  string   `json:"branch,omitempty"`  // of a repository, that a commit is for: refs/heads/main
	Commit  string   `json:"commit,omitempty"`  // the id of that commit, in hexadecimal
	Changes []Change `json:"changes,omitempty"` // of a change of many paths, from Path: the first 1,000
	Paths   int      `json:"paths,omitempty"`   // how many there are
	URL     string   `json:"url,omitempty"`     // of a mount

	Refuses []string         `json:"refuses,omitempty"` // what is locked: reads, changes, all; none if nothing is any more
	Limits  map[string]int64 `json:"limits,omitempty"`  // of a grant, that were changed

	Result Result   `json:"result,omitempty"` // how it ended
	Code   vfs.Code `json:"code,omitempty"`   // why it failed
	Said   string   `json:"said,omitempty"`   // the same for people, without what the host alone may know
}

// grant returns the number of the grant that e is about, or 0.
func (e *Entry) grant() int64 {
	if len(e.Grants) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimPrefix(e.Grants[0].ID, "g"), 10, 64)
	return n
}

// Holder is a grant or a share, and its name.
type Holder struct {
	ID   string `json:"id"` // g17
	Name string `json:"name"`
}

// Change is one path of a change of many.
type Change struct {
	Path    Path   `json:"path"`
	From    Path   `json:"from,omitempty"`    // where it was before a move
	Was     string `json:"was,omitempty"`     // the version of the file that was there
	WasKind string `json:"wasKind,omitempty"` // of what was there: directory, symlink, or file if its version is not known
	Version string `json:"version,omitempty"` // of the file that is there afterwards
	Kind    string `json:"kind,omitempty"`    // of what is there afterwards, as in WasKind
}

// Dir says how often something was read in a directory since the entry before.
type Dir struct {
	Path  Path  `json:"path"`
	Rest  bool  `json:"rest,omitempty"`  // it stands for all directories that are not counted by themselves; Path is ""
	Reads int64 `json:"reads,omitempty"` // of files in it: each part of a file that was read, and each file that was opened to be read
	Lists int64 `json:"lists,omitempty"` // of the directory itself
}

// Hooked is a hook, and what it said.
type Hooked struct {
	Name string `json:"name"`
	Said string `json:"said,omitempty"` // "" if it let the change pass
}

// Was says what a file was before a change.
type Was struct {
	Size     int64 `json:"size"`     // in bytes
	Modified int64 `json:"modified"` // milliseconds since the epoch
}

// Span is several writes in place to one file, which have one intent.
type Span struct {
	Writes int64 `json:"writes"`
	From   int64 `json:"from"` // the first byte that was written at an offset, and behind the last; both 0 if none was
	To     int64 `json:"to"`
}

// Result is how a change ended.
type Result string

// The results.
const (
	Done    Result = "done"
	Failed  Result = "failed"
	NotDone Result = "not done" // the host was killed before it
	Unknown Result = "unknown"  // the host was killed, and what is there now does not tell
)

// Path is a path below the root of the host's tree. It need not be UTF-8.
type Path string

type bytesOf struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON writes a string, or an object with the bytes in base64 if they are not UTF-8. See [vfs.PrintableJSON].
func (p Path) MarshalJSON() ([]byte, error) {
	if !utf8.ValidString(string(p)) {
		return json.Marshal(bytesOf{[]byte(p)})
	}
	text, err := json.Marshal(string(p))
	return vfs.PrintableJSON(text), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		*p = Path(s)
		return nil
	}
	var b bytesOf
	err := json.Unmarshal(text, &b)
	*p = Path(b.Bytes)
	return err
}

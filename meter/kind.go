package meter

// A Kind is something that can be held.
type Kind uint8

// The kinds.
const (
	Connections  Kind = iota // connections that hold something of the grant
	Nodes                    // open nodes and gates; one at a long path counts for several
	Streams                  // open contents and whole-file writes: each is a descriptor
	Writers                  // capabilities of whole-file writes, until they have ended and were released
	Listings                 // listings that wait for their next page
	Shares                   // live shares
	StoredBytes              // growth of stored content
	StoredNodes              // growth of the number of stored nodes
	StagedBytes              // bytes of whole-file writes under way; at most what StoredBytes allows
	MessageBytes             // bytes of large incoming messages, until their call is done
	CallBytes                // bytes that open calls hold
	ReplyBytes               // bytes of answers that were not read
	Threads                  // calls that may be waiting in the kernel
	Waits                    // calls that wait for a guest, or for another call
	Temps                    // temporary directories
	Watches                  // directories that are asked about for changes, and those below that are watched
	Kinds                    // the number of kinds
)

// kinds has for each kind its name, its noun for errors, what a guest that has too many can do, and whether it is
// counted in bytes.
var kinds = [Kinds]struct {
	name, noun, help string
	bytes            bool
}{
	Connections:  {"connections", "connections", "; close some", false},
	Nodes:        {"nodes", "open nodes", "; release some", false},
	Streams:      {"streams", "reads and whole-file writes under way", "; let some end", false},
	Writers:      {"writers", "Writers", "; commit some, and release those that have ended", false},
	Listings:     {"listings", "listings under way", "; finish some", false},
	Shares:       {"shares", "live shares", "; revoke some", false},
	StoredBytes:  {"storedBytes", "bytes of stored content", "; remove something", true},
	StoredNodes:  {"storedNodes", "stored files and directories", "; remove something", false},
	StagedBytes:  {"stagedBytes", "bytes of whole-file writes under way", "; let some end", true},
	MessageBytes: {"messageBytes", "bytes of large messages", "; wait for some answers", true},
	CallBytes:    {"callBytes", "bytes of open calls", "; wait for some answers", true},
	ReplyBytes:   {"replyBytes", "bytes of answers that were not read", "; read them", true},
	Threads:      {"threads", "calls that wait for the disk", "; let some end", false},
	Waits:        {"waits", "calls that wait for a guest", "; let some end", false},
	Watches:      {"watches", "directories that are watched", "; ask about a smaller directory", false},
	Temps:        {"temps", "temporary directories", "; release some", false},
}

// String returns the name of k in configuration, status and schema.
func (k Kind) String() string { return kinds[k].name }

// Noun returns what k counts, in the words of errors.
func (k Kind) Noun() string { return kinds[k].noun }

// in returns the name of k for the end of an error, for those who set limits.
func (k Kind) in() string { return " (limit " + k.String() + ")" }

// forMore ends an error about too much of k: what the guest can do, and who can give more.
func (k Kind) forMore(whose string) string {
	switch {
	case whose == thisGrant:
		return k.in() + kinds[k].help + ", or ask its giver for more"
	case k == StoredBytes || k == StoredNodes: // the quota of a mount
		return kinds[k].help + ", or ask for more"
	}
	return k.in() + kinds[k].help
}

// Bytes reports whether k is counted in bytes.
func (k Kind) Bytes() bool { return kinds[k].bytes }

// KindOf returns the kind of that name.
func KindOf(name string) (Kind, bool) {
	for k := range Kinds {
		if kinds[k].name == name {
			return k, true
		}
	}
	return 0, false
}

// Limits says how much of some kinds may be held. A kind that is missing or 0 is not changed. A
// negative value means no limit.
type Limits map[Kind]int64

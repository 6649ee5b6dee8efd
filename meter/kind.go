package meter

// A Kind is something that can be held.
type Kind uint8

// The kinds.
const (
	Connections  Kind = iota // that hold something of the grant
	Nodes                    // open nodes and gates; one at a long path counts for several
	Streams                  // contents held open, and whole-file writes: each is a descriptor
	Writers                  // capabilities of whole-file writes, until they have ended and were released
	Listings                 // listings that wait for their next page
	Shares                   // live shares
	StoredBytes              // by which stored content has grown
	StoredNodes              // by which the number of stored nodes has grown
	StagedBytes              // of whole-file writes under way; at most what StoredBytes allows
	MessageBytes             // of large messages that came in, until their call is done
	CallBytes                // that open calls hold
	ReplyBytes               // that were answered and not read
	Threads                  // calls that may be waiting in the kernel
	Waits                    // calls that wait for a guest, or for another call
	Kinds                    // how many kinds there are
)

// kinds says of each kind how it is called, in general and in an error, and what whoever
// has too many may do himself.
var kinds = [Kinds]struct{ name, noun, help string }{
	Connections:  {"connections", "connections", "; close some"},
	Nodes:        {"nodes", "open nodes", "; release some"},
	Streams:      {"streams", "reads and whole-file writes under way", "; let some end"},
	Writers:      {"writers", "Writers", "; commit some, and release those that have ended"},
	Listings:     {"listings", "listings under way", "; finish some"},
	Shares:       {"shares", "live shares", "; revoke some"},
	StoredBytes:  {"storedBytes", "bytes of stored content", "; remove something"},
	StoredNodes:  {"storedNodes", "stored files and directories", "; remove something"},
	StagedBytes:  {"stagedBytes", "bytes of whole-file writes under way", "; let some end"},
	MessageBytes: {"messageBytes", "bytes of large messages", "; wait for some answers"},
	CallBytes:    {"callBytes", "bytes of open calls", "; wait for some answers"},
	ReplyBytes:   {"replyBytes", "bytes of answers that were not read", "; read them"},
	Threads:      {"threads", "calls that wait for the disk", "; let some end"},
	Waits:        {"waits", "calls that wait for a guest", "; let some end"},
}

// String returns the name that configuration, status and schema have for k.
func (k Kind) String() string { return kinds[k].name }

// Noun returns what k counts, as an error says it.
func (k Kind) Noun() string { return kinds[k].noun }

// in names k behind what an error says of it, so that whoever sets limits finds it.
func (k Kind) in() string { return " (limit " + k.String() + ")" }

// forMore ends an error of whoever has too much of k: what he may do himself, and who may give him more.
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
func (k Kind) Bytes() bool {
	switch k {
	case StoredBytes, StagedBytes, MessageBytes, CallBytes, ReplyBytes:
		return true
	}
	return false
}

// KindOf returns the kind of that name.
func KindOf(name string) (Kind, bool) {
	for k := range Kinds {
		if kinds[k].name == name {
			return k, true
		}
	}
	return 0, false
}

// Limits says how much may be held of some kinds. A kind that is missing, or 0, keeps what
// it had; a negative one has no limit.
type Limits map[Kind]int64

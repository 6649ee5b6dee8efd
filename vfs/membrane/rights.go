package membrane

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"capd/vfs"
)

// Rights is a set of what a capability may do. Each right is one bit. Deriving a
// capability may drop rights and never adds one; see [Narrow].
type Rights uint16

// The rights. docs/semantics.md says which operation needs which.
const (
	Read     Rights = 1 << iota // content and versions
	Write                       // create, put, change in place, links
	Delete                      // remove
	List                        // list, glob, and grep with Read
	Move                        // both ends of a move, with Read at the source and Write at the target
	Archive                     // pack with Read, extract with Write
	Watch                       // be told of changes
	Metadata                    // sizes, times, what a link leads to
	Link                        // make links, with Write; see [MakeLink]

	AllRights    = Read | Write | Delete | List | Move | Archive | Watch | Metadata // what is given if nobody says otherwise
	EveryRight   = AllRights | Link
	ChangeRights = Write | Delete | Move // what is missing of these is readOnly, all else denied
)

var rightNames = [...]string{"read", "write", "delete", "list", "move", "archive", "watch", "metadata", "link"}

// Names returns the names of the rights in r, in the order of the constants.
func (r Rights) Names() []string {
	names := []string{}
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// MarshalJSON returns the names of the rights in r as a list.
func (r Rights) MarshalJSON() ([]byte, error) { return json.Marshal(r.Names()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Rights) UnmarshalJSON(text []byte) error {
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	if *r = 0; len(names) == 0 {
		return nil
	}
	got, err := ParseRights(strings.Join(names, ","))
	*r = got
	return err
}

// String returns the names of the rights in r, separated by commas: "read,list". It
// returns "all" for AllRights, "all,link" for EveryRight and "none" for none.
func (r Rights) String() string {
	switch r {
	case AllRights:
		return "all"
	case EveryRight:
		return "all,link"
	case 0:
		return "none"
	}
	return strings.Join(r.Names(), ",")
}

// ParseRights returns the rights whose names are in text, separated by commas. It also
// reads what String returns. It answers invalid for any other word.
func ParseRights(text string) (r Rights, err error) {
	switch text {
	case "all":
		return AllRights, nil
	case "all,link":
		return EveryRight, nil
	case "none":
		return 0, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(rightNames[:], name)
		if i < 0 {
			return 0, vfs.Errorf(vfs.Invalid, "%s is not a right; the rights are %s", strconv.Quote(vfs.Printable(name)), strings.Join(rightNames[:], ", "))
		}
		r |= 1 << i
	}
	return r, nil
}

// refusals returns the mode that refuses every right that is not in r.
func (r Rights) refusals() mode { return mode(EveryRight &^ r) }

// rights returns the rights that m does not refuse.
func (m mode) rights() Rights { return EveryRight &^ Rights(m&noRights) }

// Narrow returns n with those of its rights that are in keep. Revoking n revokes the
// result. Like every function here that derives, it leaves n open, and answers unsupported
// for a node behind no membrane.
func Narrow(n vfs.Node, keep Rights) (vfs.Node, error) {
	if f, ok := n.(vfs.File); ok {
		v, err := viewOf[*fileView](f)
		if err != nil {
			return nil, err
		}
		return v.derived(v.base, v.mask|keep.refusals())
	}
	v, err := viewOf[*dirView](n)
	if err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask|keep.refusals())
}

// RightsOf returns the rights that n has now: those it was given, less what the host has
// locked. What a rule, a mount or the store refuses besides is not looked at. It answers
// revoked, expired and stale, and unsupported for a node behind no membrane.
func RightsOf(n vfs.Node) (Rights, error) {
	v, ok := n.(gated)
	if !ok {
		return 0, vfs.Errorf(vfs.Unsupported, "only a node behind a membrane has rights; guard it first")
	}
	if err := v.check(0); err != nil {
		return 0, err
	}
	return v.mode().rights(), nil
}

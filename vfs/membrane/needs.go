package membrane

import "capd/vfs"

// needs says which rights an operation needs: at the node or the place that it is on, and
// at the target of a move. A condition on a version needs Read besides.
var needs = [...]struct{ at, target mode }{
	OpStat:     {at: noMetadata},
	OpLookup:   {at: blind},
	OpList:     {at: noList},
	OpRead:     {at: noRead},
	OpTarget:   {at: blind},
	OpSync:     {}, // see fileView.Sync
	OpArchive:  {at: noArchive | noList | noRead | noMetadata},
	OpWatch:    {at: noWatch},
	OpCreate:   {at: noWrite},
	OpMkdir:    {at: noWrite},
	OpReplace:  {at: noWrite},
	OpRemove:   {at: noDelete},
	OpRename:   {at: noMove | noRead, target: noMove | noWrite},
	OpWrite:    {at: noWrite},
	OpTruncate: {at: noWrite},
	OpAppend:   {at: noWrite},
	OpSymlink:  {at: noWrite},

	OpAttributes: {at: noWrite | noMetadata},
	OpChange:     {at: noRead | noWrite},        // of a patch; what a change is made of has needs of its own
	OpCopy:       {at: noRead, target: noWrite}, // and List for a directory
}

// Need is what a call needs of a node.
type Need mode

// To returns what an operation needs of the node that it is on.
func To(k OpKind) Need { return Need(needs[k].at) }

// Onto returns what an operation needs of its target.
func Onto(k OpKind) Need { return Need(needs[k].target) }

// Over returns what a move or a copy needs of a target that it replaces, whatever that is.
func Over(k OpKind) Need { return Need(onto(k, vfs.If{Over: true})) }

// need returns what an operation on v needs.
func (k OpKind) need() mode { return needs[k].at }

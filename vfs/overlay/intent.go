package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// intent is what an Apply is about to do. It is stored before the lower tree changes
// and until the index records the result. After a restart in between, the lower tree
// shows whether the batch was done: it is done wholly or not at all.
type intent struct {
	All     bool       `json:"all,omitempty"`
	Deep    []raw      `json:"deep,omitempty"`
	Lone    []raw      `json:"lone,omitempty"`
	Changes []intended `json:"changes"`
}

type intended struct {
	Path    raw   `json:"path"`
	Was     *fact `json:"was"`
	Becomes *fact `json:"becomes"`
}

func raws(paths []string) (all []raw) {
	for _, p := range paths {
		all = append(all, raw(p))
	}
	return all
}

func texts(paths []raw) (all []string) {
	for _, p := range paths {
		all = append(all, string(p))
	}
	return all
}

// intend stores that changes are about to be made.
func (o *Overlay) intend(ctx context.Context, chosen *selection, changes []diff.Change) error {
	in := intent{All: chosen.all, Deep: raws(chosen.deep), Lone: raws(slices.Sorted(maps.Keys(chosen.lone)))}
	for _, c := range changes {
		in.Changes = append(in.Changes, intended{raw(c.Path), factOf(base{state: c.Was}), factOf(base{state: c.Is})})
	}
	err := o.writeIntent(ctx, in)
	for vfs.CodeOf(err) == vfs.Quota && len(in.Changes) > 1 { // one change is enough to tell whether the batch was done
		in.Changes = in.Changes[:len(in.Changes)/2]
		err = o.writeIntent(ctx, in)
	}
	return err
}

// intentRoom is how many bytes the upper store reserves for an intent, so that it can
// be written when the store is full.
const intentRoom = 16 << 10

func (o *Overlay) writeIntent(ctx context.Context, in intent) error {
	text, err := json.Marshal(in)
	if err != nil {
		return vfs.Hide(err)
	}
	return o.keepIntent(ctx, text)
}

// keepIntent writes text, padded with spaces to the reserved size. Blank text means no
// intent.
func (o *Overlay) keepIntent(ctx context.Context, text []byte) error {
	text = append(text, bytes.Repeat([]byte(" "), max(intentRoom-len(text), 0))...)
	_, err := o.upper.Replace(ctx, intentName, bytes.NewReader(text), vfs.If{})
	return err
}

// reserve reserves room for an intent in an upper store that has none yet. A store too
// full for it can still be read and reverted.
func (o *Overlay) reserve(ctx context.Context) error {
	n, err := o.upper.Lookup(ctx, intentName)
	if err == nil {
		return n.Close()
	}
	if vfs.CodeOf(err) == vfs.NotFound {
		err = o.keepIntent(ctx, nil)
	}
	if vfs.CodeOf(err) == vfs.Quota {
		return nil
	}
	return err
}

// settled removes the intent.
func (o *Overlay) settled(ctx context.Context) error {
	if o.index.lost != nil {
		return nil // the next start needs it
	}
	return o.keepIntent(ctx, nil)
}

// resume finds out what became of an Apply that was cut short.
func (o *Overlay) resume(ctx context.Context) error {
	text, err := readWhole(ctx, o.upper, intentName)
	if vfs.CodeOf(err) == vfs.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var in intent
	if json.Unmarshal(text, &in) != nil {
		return errIndex
	}
	s := o.snapshot()
	defer s.close()
	done, err := s.wasDone(ctx, in)
	if err != nil {
		return err
	}
	if done {
		chosen := newSelection(texts(in.Deep), texts(in.Lone))
		chosen.all = in.All
		if err := o.make(ctx, s.settle(chosen, s.lacks(ctx)), true, nil); err != nil {
			return err
		}
	}
	return o.settled(ctx)
}

// wasDone looks for a path that shows whether the batch was done.
func (s *snapshot) wasDone(ctx context.Context, in intent) (bool, error) {
	for _, c := range in.Changes {
		if c.Was == nil || c.Becomes == nil {
			return false, errIndex
		}
		is, err := s.lowerState(ctx, string(c.Path))
		if err != nil {
			return false, err
		}
		switch is {
		case c.Becomes.base().state:
			return true, nil
		case c.Was.base().state:
			return false, nil
		}
	}
	return false, nil
}

package hook

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// Waits before a hook is told again what it could not be told.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = time.Minute
)

// ofMany is the operation of a guest's change of many paths.
const ofMany = "change"

// ofTree is that of a copy of a directory, whose parts are listed too.
const ofTree = "copy"

// entries is how many entries of the record are read at once.
const entries = 256

// tell begins to tell h of the changes from its cursor on. Needs c.mu.
func (c *Chain) tell(h *hook) {
	ctx, stop := context.WithCancel(c.ctx)
	h.stop, h.told = stop, make(chan struct{})
	cursor, _ := h.at()
	t := &telling{chain: c, hook: h, began: cursor, cursor: cursor, intents: map[int64]record.Entry{}}
	go func() {
		defer close(t.hook.told)
		t.run(ctx)
	}()
}

// telling tells one hook of changes.
type telling struct {
	chain   *Chain
	hook    *hook
	began   int64 // the cursor at the beginning
	cursor  int64
	intents map[int64]record.Entry // that were read and have not ended
}

func (t *telling) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		err := t.more(ctx)
		if err == nil {
			pause = firstPause
			continue
		}
		if ctx.Err() != nil {
			return
		}
		t.chain.failures.after.Add(1)
		t.failed(detailed(err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// more waits for entries and tells of them.
func (t *telling) more(ctx context.Context) error {
	all, next, missed, err := t.chain.log.Events(ctx, uint64(t.cursor), entries)
	if err != nil {
		return err
	}
	if missed > 0 {
		t.chain.logf("capd: the hook %s was not told of %d entries of the record, which are no longer there", t.hook.Name, missed)
	}
	for _, e := range all {
		told, err := t.of(ctx, e)
		if err != nil {
			return err
		}
		t.cursor = int64(e.Number) + 1
		if told {
			t.keep()
		}
	}
	t.cursor = int64(next)
	if len(all) > 0 {
		t.keep()
	}
	return nil
}

// keep writes how far the hook was told. If the host is killed before it is on disk, the hook is told again.
func (t *telling) keep() {
	name, cursor := t.hook.Name, t.cursor
	t.hook.reached(cursor, "")
	t.chain.db.Later(func(tx *database.Tx) error {
		_, err := tx.Exec("UPDATE hooks SET cursor=? WHERE name=? AND cursor<?", cursor, name, cursor)
		return err
	})
}

// failed says for the list and the log that the hook could not be told.
func (t *telling) failed(wrong string) {
	if _, was := t.hook.at(); was != wrong {
		t.chain.logf("capd: the hook %s could not be told of a change, and will be told again: it %s", t.hook.Name, wrong)
	}
	t.hook.reached(t.cursor, wrong)
}

// of tells of one entry, if it says how a change ended that concerns the hook.
func (t *telling) of(ctx context.Context, event operator.Event) (told bool, err error) {
	var e record.Entry
	if err := json.Unmarshal(event.Entry, &e); err != nil {
		return false, nil // an entry of a newer capd
	}
	switch e.Kind {
	case record.Intended:
		if t.concerns(&e) {
			t.intents[int64(event.Number)] = e
		}
		return false, nil
	case record.Ended, record.Settled:
	default:
		return false, nil
	}
	of, known := t.intents[e.Of]
	if !known && e.Of < t.began {
		of, known, err = t.intent(ctx, e.Of)
	}
	if err != nil || !known {
		return false, err
	}
	if err := t.call(ctx, &of, &e); err != nil {
		return false, err
	}
	delete(t.intents, e.Of)
	return true, nil
}

// intent reads an intent from before the telling began.
func (t *telling) intent(ctx context.Context, number int64) (e record.Entry, ok bool, err error) {
	all, _, _, err := t.chain.log.Events(ctx, uint64(number), 1)
	if err != nil || len(all) == 0 || int64(all[0].Number) != number {
		return e, false, err
	}
	if err := json.Unmarshal(all[0].Entry, &e); err != nil {
		return e, false, nil
	}
	return e, e.Kind == record.Intended && t.concerns(&e), nil
}

func (t *telling) call(ctx context.Context, of, e *record.Entry) error {
	if t.hook.by.Gone() {
		return errGone
	}
	ctx, cancel := context.WithTimeout(ctx, t.chain.each)
	defer cancel()
	change := changeOf(of).HookedChange
	change.Root = t.chain.rootOf(change.Path)
	return t.hook.by.After(ctx, change, operator.HookOutcome{
		ID: "c" + strconv.FormatInt(e.Of, 10), Result: string(e.Result), Code: string(e.Code), AtMs: e.At,
	})
}

// concerns reports whether the change that an intent is about concerns the hook. A guest's change of many paths, and a copy of a
// directory, does if one of its paths does.
func (t *telling) concerns(e *record.Entry) bool {
	all := changeOf(e)
	if e.Op != ofMany && e.Op != ofTree {
		return t.hook.concerns(all)
	}
	for _, c := range e.Changes {
		part := *all
		part.Operation, part.Path = "replace", vfs.Join(string(e.Path), string(c.Path))
		switch {
		case c.Kind == "" && c.Version == "":
			part.Operation = "remove"
		case c.Kind == vfs.DirKind.String():
			part.Operation = "mkdir"
		}
		if t.hook.concerns(&part) {
			return true
		}
	}
	return false
}

// changeOf returns the change that an intent is about.
func changeOf(e *record.Entry) *Change {
	c := &Change{HookedChange: operator.HookedChange{Operation: e.Op, Path: string(e.Path), To: string(e.To)}}
	if n := len(e.Grants); n > 0 {
		c.Grant = e.Grants[0].ID
		if s, err := operator.ParseSubject(e.Grants[n-1].Name); err == nil {
			c.Subject = string(s)
		}
	}
	return c
}

package hook

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// Chain is the hooks of a host. It is safe for concurrent use.
type Chain struct {
	db             *database.DB
	log            *record.Log // nil: nobody can be told afterwards
	program        func(operator.Hook) operator.HookCaller
	roots          atomic.Pointer[[]operator.Root]
	logf           func(string, ...any)
	each, together time.Duration
	slots          chan struct{} // of the calls before changes
	failures       failures

	all    atomic.Pointer[[]*hook] // in the order in which they are asked; changed with mu
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

// Options configures a Chain.
type Options struct {
	// Record is what hooks are told from. Without one they are only asked.
	Record *record.Log
	// Dir is where each program has a directory of its own, in which it runs.
	Dir string
	// File is the hooks of the configuration, in order. All of them have a Command.
	File []operator.Hook
	// Roots are those of the host.
	Roots []operator.Root
	// Logf logs what is wrong with hooks. Nil drops it.
	Logf func(string, ...any)
	// Each and Together are how long one hook, and all hooks about one change, may take. 0 is [Each] and [Together]. Tests
	// shorten them.
	Each, Together time.Duration
}

// atOnce is how many hooks are asked at the same time.
const atOnce = 8

// Open begins with the hooks of the configuration, and those that were registered before. Those that were capabilities are
// gone until they are added again.
func Open(ctx context.Context, db *database.DB, o Options) (*Chain, error) {
	c := &Chain{db: db, log: o.Record, logf: o.Logf, each: o.Each, together: o.Together, slots: make(chan struct{}, atOnce)}
	if c.logf == nil {
		c.logf = func(string, ...any) {}
	}
	if c.each == 0 {
		c.each = Each
	}
	if c.together == 0 {
		c.together = Together
	}
	c.program = func(h operator.Hook) operator.HookCaller { return newProgram(h, o.Dir, c.logf) }
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.all.Store(&[]*hook{})
	c.SetRoots(o.Roots)
	if err := c.Exchange(ctx, o.File); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the telling. Afterwards nobody is told any more, and the caller can close the database.
func (c *Chain) Close() {
	c.cancel()
	for _, h := range *c.all.Load() {
		h.end()
	}
}

// end ends the telling of h, if it is told.
func (h *hook) end() {
	if h.stop != nil {
		h.stop()
		<-h.told
	}
}

// concerned returns the hooks that are asked about change, and sets its root.
func (c *Chain) concerned(change *Change) (some []*hook) {
	change.Root = c.rootOf(change.Path)
	for _, h := range *c.all.Load() {
		if h.Before && h.concerns(change) {
			some = append(some, h)
		}
	}
	return some
}

// Asked returns the names of the hooks that would be asked about change, in order.
func (c *Chain) Asked(change Change) (names []string) {
	for _, h := range c.concerned(&change) {
		names = append(names, h.Name)
	}
	return names
}

// failures counts the calls of hooks that have failed.
type failures struct{ before, after atomic.Uint64 }

// Failures returns how many calls of hooks have failed since Open: those before changes, and those that told of one. A
// denial is no failure.
func (c *Chain) Failures() (before, after uint64) {
	return c.failures.before.Load(), c.failures.after.Load()
}

// Any reports whether there is a hook.
func (c *Chain) Any() bool { return len(*c.all.Load()) > 0 }

// SetRoots says what the roots of the host are from now on.
func (c *Chain) SetRoots(roots []operator.Root) { c.roots.Store(&roots) }

// rootOf returns the id of the innermost root that path is in, or "".
func (c *Chain) rootOf(path string) (id string) {
	most := -1
	for _, r := range *c.roots.Load() {
		if rest, ok := strings.CutPrefix(path, r.Path); ok && (r.Path == "" || rest == "" || rest[0] == '/') && len(r.Path) > most {
			id, most = r.ID, len(r.Path)
		}
	}
	return id
}

// Exchange replaces the hooks of the configuration by file. The others stay. Hooks that stay are told on from where
// they were. It answers invalid, and changes nothing then.
func (c *Chain) Exchange(ctx context.Context, file []operator.Hook) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*hook
	for i, f := range file {
		if slices.ContainsFunc(file[:i], func(o operator.Hook) bool { return o.Name == f.Name }) {
			return vfs.Errorf(vfs.Invalid, "two hooks are called %s; write another name", f.Name)
		}
		h, err := compile(f, c.program(f))
		if err == nil {
			err = c.tellable(f)
		}
		if err != nil {
			return err
		}
		all = append(all, c.same(h))
	}
	kept, err := c.kept(ctx, all)
	if err != nil {
		return err
	}
	if all = append(all, kept...); len(all) > MaxHooks {
		return vfs.Errorf(vfs.Limit, "the host has %d hooks; at most %d can be registered", len(all), MaxHooks)
	}
	err = c.db.Write(func(tx *database.Tx) error { return c.writeFile(tx, all[:len(file)]) })
	if full := vfs.CodeOf(err) == vfs.Busy; err != nil && !(full && len(*c.all.Load()) == 0) { // a host starts with a full disk
		return err
	}
	c.replace(all)
	return nil
}

// same returns the hook that is there already if h is the same, so that it goes on, and otherwise h.
func (c *Chain) same(h *hook) *hook {
	for _, there := range *c.all.Load() {
		if there.Name == h.Name && reflect.DeepEqual(there.Hook, h.Hook) {
			return there
		}
	}
	return h
}

// replace has all asked and told from now on. Needs c.mu.
func (c *Chain) replace(all []*hook) {
	was := *c.all.Swap(&all)
	for _, h := range was {
		if !slices.Contains(all, h) {
			h.end()
		}
	}
	for _, h := range all {
		if h.After && h.stop == nil && h.by != nil {
			c.tell(h)
		}
	}
}

// tellable answers an error if h is told of changes and there is no record of them.
func (c *Chain) tellable(h operator.Hook) error {
	if h.After && c.log == nil {
		return vfs.Errorf(vfs.Unsupported, "the hook %s is told of changes after them, from the record, and this host keeps none", h.Name)
	}
	return nil
}

// AddHook implements [operator.Hooks].
func (c *Chain) AddHook(ctx context.Context, spec operator.Hook, by operator.HookCaller) error {
	spec.Command, spec.Source = nil, operator.ConsoleSource
	h, err := compile(spec, by)
	if err == nil {
		err = c.tellable(spec)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(*c.all.Load())
	i := slices.IndexFunc(all, func(o *hook) bool { return o.Name == h.Name })
	switch {
	case i < 0 && len(all) >= MaxHooks:
		return vfs.Errorf(vfs.Limit, "the host has %d hooks, which is the most; remove one", MaxHooks)
	case i < 0:
		all = append(all, h)
	case all[i].Source != operator.ConsoleSource:
		return vfs.Errorf(vfs.Exists, "the configuration has a hook of this name (%s); write another", vfs.Printable(all[i].Source))
	default:
		h.cursor, _ = all[i].at()
		all[i] = h
	}
	if err := c.db.Write(func(tx *database.Tx) error { return c.writeAdded(tx, h) }); err != nil {
		return err
	}
	c.replace(all)
	return nil
}

// RemoveHook implements [operator.Hooks].
func (c *Chain) RemoveHook(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(*c.all.Load())
	i := slices.IndexFunc(all, func(h *hook) bool { return h.Name == name })
	switch {
	case i < 0:
		return vfs.Errorf(vfs.NotFound, "no hook has this name; hooks() lists them")
	case all[i].Source != operator.ConsoleSource:
		return vfs.Errorf(vfs.Denied, "this hook stands in the configuration (%s); remove it there", vfs.Printable(all[i].Source))
	}
	if err := c.db.Write(func(tx *database.Tx) error { return c.delete(tx, name) }); err != nil {
		return err
	}
	c.replace(slices.Delete(all, i, i+1))
	return nil
}

// ListHooks implements [operator.Hooks].
func (c *Chain) ListHooks(ctx context.Context) ([]operator.HookState, error) {
	end := int64(0)
	if err := c.db.Read(ctx, func(r *database.Rows) (err error) {
		end, err = recordEnd(r)
		return err
	}); err != nil {
		return nil, err
	}
	states := []operator.HookState{}
	for _, h := range *c.all.Load() {
		cursor, failing := h.at()
		s := operator.HookState{Hook: h.Hook, Gone: h.by == nil || h.by.Gone(), Failing: failing}
		if h.After {
			s.Behind = uint64(max(end-cursor, 0))
		}
		states = append(states, s)
	}
	return states, nil
}
